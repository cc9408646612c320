// SPDX-License-Identifier: Apache-2.0
// CPU reduction kernels. They know neither ranks nor transports.
#pragma once

#include <cstddef>
#include <span>

#include "echelon/echelon.h"

namespace echelon {

// out[i] = op(op(sources[0][i], sources[1][i]), sources[2][i]) ... for i < count, in the order of
// the sources, in one pass over memory. 16-bit types accumulate in float32 over all sources and
// are rounded once (to nearest, ties to even). Integers wrap. ECH_AVG adds like ECH_SUM: see
// divide().
//
// The bits of a result depend on nothing but the elements and their order: not on the
// instruction set, the position or the alignment. A NaN result is always the quiet positive NaN
// without payload; MIN and MAX give it when any input is NaN, and treat -0 as less than +0. So
// op(a, b) and op(b, a) have the same bits. One source is copied unchanged.
//
// Requires at least one source. `out` may be equal to any source; other overlaps are not
// allowed. No alignment is required. Results of 8 MiB and more bypass the cache, unless in
// place. Thread-safe, no allocation. (Arguments are std::byte*, so that an unqualified reduce()
// or copy() may find the one of std: write echelon::reduce.)
void reduce(ech_dtype dtype, ech_op op, std::span<const std::byte* const> sources, std::byte* out,
            std::size_t count);

// The common case: out[i] = op(a[i], b[i]).
void reduce(ech_dtype dtype, ech_op op, const std::byte* a, const std::byte* b, std::byte* out,
            std::size_t count);

// data[i] = data[i] / divisor, for a positive divisor. Integers truncate toward zero; 16-bit types
// divide in float32 and are rounded once; NaN as above. Thread-safe, no allocation.
void divide(ech_dtype dtype, std::byte* data, std::size_t count, int divisor);

// out[i] = in[i] * factor, for types of floats. 16-bit types multiply in float32, to which the
// factor is rounded as it is for float32 itself, and are rounded once; NaN as above. `out` may be
// `in`. Thread-safe, no allocation.
void scale(ech_dtype dtype, std::byte* out, const std::byte* in, std::size_t count, double factor);

// memcpy, but from 8 MiB on with stores that bypass the cache.
void copy(std::byte* out, const std::byte* in, std::size_t bytes);

// "avx512", "avx2", "neon" or "plain" (standard C++): the instruction set that reduce() uses here.
const char* kernel_target();

}  // namespace echelon
