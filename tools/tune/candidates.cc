// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/candidates.h"

#include <algorithm>
#include <bit>

namespace echelon::tune {

std::vector<PredictedRecipe> within(std::vector<PredictedRecipe> plans, double factor) {
  std::ranges::stable_sort(plans, {}, &PredictedRecipe::seconds);
  if (plans.empty() || factor <= 0) return plans;
  const double most = factor * plans.front().seconds;
  std::erase_if(plans, [&](const PredictedRecipe& p) { return p.seconds > most; });
  return plans;
}

// Uncut is what comes after the largest segment below `bytes`.
std::vector<Recipe> neighbours(const Recipe& recipe, std::size_t bytes) {
  const std::size_t uncut = std::bit_ceil(bytes);
  const std::size_t now = recipe.segment == 0 ? uncut : recipe.segment;
  std::vector<Recipe> out;
  for (const std::size_t segment : {now / 2, 2 * now}) {
    const bool whole = segment >= bytes;
    if (segment < kSmallestSegment || (whole && recipe.segment == 0)) continue;
    if (!whole && segment > kLargestSegment) continue;
    out.push_back(recipe);
    out.back().segment = whole ? 0 : segment;
  }
  return out;
}

std::string forced(const Recipe& recipe, std::size_t bytes) {
  Recipe exact = recipe;
  if (exact.segment == 0) exact.segment = std::bit_ceil(std::max<std::size_t>(bytes, 1));
  return to_text(exact);
}

}  // namespace echelon::tune
