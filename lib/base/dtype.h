// SPDX-License-Identifier: Apache-2.0
// Element types and reduction operators: sizes, names, parsing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "echelon/echelon.h"

namespace echelon {

inline constexpr std::array<ech_dtype, 10> kAllTypes = {
    ECH_INT8,   ECH_UINT8,   ECH_INT32,    ECH_UINT32,  ECH_INT64,
    ECH_UINT64, ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64};
inline constexpr std::array<ech_op, 5> kAllOps = {ECH_SUM, ECH_PROD, ECH_MIN, ECH_MAX, ECH_AVG};
inline constexpr std::array<ech_collective, 6> kAllCollectives = {
    ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE, ECH_BARRIER};

inline constexpr std::array<std::uint8_t, kAllTypes.size()> kElementBytes = {1, 1, 4, 4, 8,
                                                                             8, 2, 2, 4, 8};

// Here, because every call asks.
inline bool is_valid(ech_dtype dtype) { return dtype >= ECH_INT8 && dtype <= ECH_FLOAT64; }
inline bool is_valid(ech_op op) { return op >= ECH_SUM && op <= ECH_AVG; }
inline bool is_valid(ech_collective collective) {
  return collective >= ECH_ALLREDUCE && collective <= ECH_BARRIER;
}
inline std::size_t size_of(ech_dtype dtype) { return kElementBytes[dtype]; }  // which must be valid

// Whole elements, without a division, which takes some processors as long as a small call's rest.
inline std::size_t elements_in(std::size_t bytes, ech_dtype dtype) {
  return bytes >> std::countr_zero(size_of(dtype));
}

std::string_view name(ech_dtype dtype);            // "f32", "bf16", "u8", ...
std::string_view name(ech_op op);                  // "sum", ...
std::string_view name(ech_collective collective);  // "allreduce", ...

std::optional<ech_dtype> parse_dtype(std::string_view text);  // also "float", "half", "int32"...
std::optional<ech_op> parse_op(std::string_view text);
std::optional<ech_collective> parse_collective(std::string_view text);

}  // namespace echelon
