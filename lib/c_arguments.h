// SPDX-License-Identifier: Apache-2.0
// How the functions of the C ABI read what they are given. Throws Error.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lib/base/dtype.h"
#include "lib/base/error.h"

namespace echelon {

inline constexpr std::size_t kLargestStruct = 4096;  // more is a struct_size that was never set

// Reads a size-first struct of any age into today's, the rest zero. NULL: all zero. A newer
// program may hand in more than today's, as long as it is zero: the default.
template <typename T>
T read_struct(const T* given, const char* what) {
  T full{};
  if (given == nullptr) return full;
  const std::size_t size = given->struct_size;
  if (size < sizeof size || size > kLargestStruct)
    throw invalid(fmt::format("{}.struct_size is {}, expected {}: use its _INIT macro", what, size,
                              sizeof full));
  std::memcpy(&full, given, std::min(sizeof full, size));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t at = sizeof full; at < size; ++at)
    if (bytes[at] != 0)
      throw Error(ECH_ERR_UNSUPPORTED,
                  fmt::format("{} sets a field at byte {} that this library does not know: it is "
                              "version {}.{}.{}, the program's header is newer",
                              what, at, ECH_VERSION_MAJOR, ECH_VERSION_MINOR, ECH_VERSION_PATCH));
  return full;
}

// Bytes of the larger of a collective's two buffers.
inline std::size_t buffer_bytes(ech_collective collective, std::size_t count, ech_dtype dtype,
                                int size) {
  const bool blocks = collective == ECH_REDUCE_SCATTER || collective == ECH_ALLGATHER;
  const std::size_t each = size_of(dtype) * (blocks ? size : 1);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes) || bytes > PTRDIFF_MAX)
    throw invalid(fmt::format("count {} is too large", count));
  return bytes;
}

}  // namespace echelon
