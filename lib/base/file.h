// SPDX-License-Identifier: Apache-2.0
// Files that users name.
#pragma once

#include <cstddef>
#include <string>

namespace echelon {

inline constexpr std::size_t kMostFileBytes = std::size_t{64} << 20;

// Its whole text; a pipe will do as well, if somebody writes within some seconds. Throws
// ECH_ERR_SYSTEM when it cannot be read and ECH_ERR_INVALID when it has more than `most` bytes
// (/dev/zero has).
std::string read_file(const std::string& path, std::size_t most = kMostFileBytes);

}  // namespace echelon
