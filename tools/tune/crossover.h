// SPDX-License-Identifier: Apache-2.0
// From which size on the second of two ways is the quicker one.
#pragma once

#include <cstddef>
#include <span>

namespace echelon::tune {

// Of one size, in seconds.
struct TwoWays {
  double small = 0, large = 0;  // the way that is meant for small sizes, and that for large ones
};

// `times`: of ascending sizes. Returns how many of them the way for small sizes is to have, so that
// the product of all times is least. `usual`, how many it has now, is kept where a single size
// would change hands, or those that do would gain less than 5 % in the mean: that may be luck.
std::size_t crossover(std::span<const TwoWays> times, std::size_t usual);

}  // namespace echelon::tune
