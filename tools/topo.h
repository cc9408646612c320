// SPDX-License-Identifier: Apache-2.0
// `echelon topo`: shows what is known of this machine, or of the machines of a file.
#pragma once

#include <CLI/App.hpp>

namespace echelon {

void add_topo(CLI::App& app);

}  // namespace echelon
