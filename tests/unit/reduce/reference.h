// SPDX-License-Identifier: Apache-2.0
// What reduce() has to compute, said once more and differently: one element at a time, 16-bit
// types in float32, float32 in float64 rounded after each step, integers in 128 bits.
#pragma once

#include <cstddef>
#include <vector>

#include "echelon/echelon.h"

namespace echelon {

// out = op over the elements at byte `at` of the sources.
void reference_element(ech_dtype dtype, ech_op op, const std::vector<const std::byte*>& sources,
                       std::size_t at, std::byte* out);

void reference_quotient(ech_dtype dtype, std::byte* element, int divisor);
void reference_product(ech_dtype dtype, std::byte* element, double factor);  // of floats

// `count` elements: zeros of both signs, infinities, NaNs of several kinds, subnormals, the
// largest and smallest numbers, and random bits between them.
std::vector<std::byte> special_values(ech_dtype dtype, std::size_t count, unsigned seed = 1);

}  // namespace echelon
