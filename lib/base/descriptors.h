// SPDX-License-Identifier: Apache-2.0
// File descriptors as a resource.
#pragma once

#include <string_view>

namespace echelon {

// Throws ECH_ERR_NO_MEMORY, with what `purpose` lacks, unless this process can open `needed` more.
// For libraries that do not bear it when there are none.
void require_descriptors(int needed, std::string_view purpose);

}  // namespace echelon
