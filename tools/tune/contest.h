// SPDX-License-Identifier: Apache-2.0
// Plans for one operation, measured against each other in turns. All ranks see the same numbers,
// those of the slowest, so that all go on with the same plans.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lib/plan/recipe.h"
#include "tools/perf/comm.h"
#include "tools/perf/trial.h"

namespace echelon::tune {

struct Contestant {
  Recipe recipe;
  double first = 0;             // s of its first operation after a warm-up
  std::vector<double> seconds;  // per operation, of the slowest rank

  double median() const;
};

// The communicator whose plans are set, and one that is left alone for what is said meanwhile.
struct Arena {
  const perf::Comm& plain;
  const perf::Comm& forced;
};

class Contest {
 public:
  // Collective, like all else. `trial` is prepared, on the forced communicator.
  Contest(const Arena& arena, perf::Trial& trial, std::size_t bytes);

  // Tries each once, the model's choice first, while `seconds` last; always two.
  void try_once(std::span<const Recipe> recipes, double seconds);

  // Measures those that stand a chance in turns until `seconds` have passed since the beginning,
  // with other segments of the quickest among them. Where the model's choice is not the quickest,
  // the last quarter is for these two, and their times are those of that quarter: among many, the
  // quickest was lucky.
  void decide(double seconds);

  const Contestant& model() const { return contestants_.front(); }
  const Contestant& best() const;
  int tried() const { return tried_; }

 private:
  double passed() const;
  double take(const Contestant& contestant, int operations);
  void enter(const Recipe& recipe);
  void drop(double factor);
  void keep_leaders();
  void add_neighbours(double seconds);
  void take_turns();

  const Arena arena_;
  perf::Trial& trial_;
  const std::size_t bytes_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<Contestant> contestants_;  // the model's choice is the first
  int tried_ = 0;
};

}  // namespace echelon::tune
