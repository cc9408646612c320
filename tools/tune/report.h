// SPDX-License-Identifier: Apache-2.0
// What tune has found, as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "echelon/echelon.h"
#include "lib/plan/recipe.h"

namespace echelon::tune {

struct TimedRecipe {
  Recipe recipe;
  double seconds = 0;  // median
};

// One operation.
struct Verdict {
  ech_collective collective = ECH_ALLREDUCE;
  std::size_t bytes = 0;
  TimedRecipe model, best;
  int samples = 0;  // of the best one
  int tried = 0;    // plans

  double regret() const { return model.seconds / best.seconds; }
};

// Below, another plan's lead counts as luck: the model's choice is kept.
inline constexpr double kWorthIt = 1.05;

const TimedRecipe& kept(const Verdict& verdict);

std::string header(bool json);
std::string line(const Verdict& verdict, bool json);

// "the model's choice is within 10 % of the best plan in 7 of 9 cases, at worst 1.38 x".
std::string summary(const std::vector<Verdict>& verdicts);

}  // namespace echelon::tune
