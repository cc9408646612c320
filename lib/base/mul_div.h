// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace echelon {

// a * b / c without overflow of the product; c must not be 0.
inline std::uint64_t mul_div(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b / c);
}

}  // namespace echelon
