// SPDX-License-Identifier: Apache-2.0
// CPU reduction kernels. They know neither ranks nor transports.
#pragma once

#include <cstddef>
#include <span>

#include "echelon/echelon.h"

namespace echelon {

// out[i] = op(sources[0][i], op(sources[1][i], ...)) for i < count, in the order of the sources,
// in one pass over memory. 16-bit types accumulate in float32 over all sources and are rounded
// once (to nearest, ties to even). ECH_AVG adds like ECH_SUM: see scale().
//
// Requires at least one source. `out` may be equal to any source; other overlaps are not
// allowed. No alignment is required beyond what the element type has. Thread-safe, no
// allocation for up to 64 sources.
void reduce(ech_dtype dtype, ech_op op, std::span<const std::byte* const> sources, std::byte* out,
            std::size_t count);

// The common case: out[i] = op(a[i], b[i]).
void reduce(ech_dtype dtype, ech_op op, const std::byte* a, const std::byte* b, std::byte* out,
            std::size_t count);

// data[i] = data[i] / divisor. Integers truncate toward zero.
void divide(ech_dtype dtype, std::byte* data, std::size_t count, int divisor);

// memcpy with stores that bypass the cache when `bytes` is far larger than it.
void copy(std::byte* out, const std::byte* in, std::size_t bytes);

// "avx512", "avx2", "neon", ...: the instruction set that reduce() uses here.
const char* kernel_target();

}  // namespace echelon
