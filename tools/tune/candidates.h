// SPDX-License-Identifier: Apache-2.0
// Which plans are worth trying for an operation, from what the model predicts. Arithmetic only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/plan/recipe.h"

namespace echelon::tune {

inline constexpr std::size_t kSmallestSegment = 64 << 10;
inline constexpr std::size_t kLargestSegment = 16 << 20;

struct PredictedRecipe {
  Recipe recipe;  // segment 0: uncut
  double seconds = 0;
};

// Those predicted within `factor` times the best one; all where it is 0. Cheapest first.
std::vector<PredictedRecipe> within(std::vector<PredictedRecipe> plans, double factor);

// The same with half and twice the segment, as far as that makes sense for `bytes`.
std::vector<Recipe> neighbours(const Recipe& recipe, std::size_t bytes);

// What has ech_comm_set_algorithm do exactly that: without a size the library would choose one.
std::string forced(const Recipe& recipe, std::size_t bytes);

}  // namespace echelon::tune
