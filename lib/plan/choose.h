// SPDX-License-Identifier: Apache-2.0
// Choosing a recipe: all candidates, costed; the cheapest wins, and the reason is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/plan/model.h"

namespace echelon {

// Predictions that differ less are alike; where ranks outnumber CPUs and these are the limit, those
// of recipes that differ less than the second (bench/results, "small segments and leaders").
inline constexpr double kAlike = 1.02;
inline constexpr double kAlikeWhereCrowded = 1.1;

// A joint call is chosen only where every other way is predicted to take so many times as long, and
// the speed of the network is more than a guess: its time is counted at its best, while Echelon's
// own way over the network notices slow links and ranks.
inline constexpr double kWorthJointCall = 1.1;

struct Candidate {
  Recipe recipe;
  Prediction prediction;
  double quickest = 0;  // s, at the segment size predicted best; by these recipes are compared
};

// What a plan was made from.
struct AssumedLink {
  std::string where;  // "host", ..., or "staging"
  Link link;
  double together = 0;  // bytes/s of the slowest child; 0: no other than the link's
  Source together_source = Source::kDefault;
};

struct Choice {
  ech_collective collective = ECH_ALLREDUCE;
  double bytes = 0;
  Candidate best;
  Bound bound;
  std::string reason;  // one sentence
  std::vector<AssumedLink> links;
  std::vector<Candidate> rejected;  // each recipe at its best segment size, the quickest first
  double alike = kAlike;            // recipes' predictions that differ less are alike here
  std::string joint_call;           // why it was not taken; "": it was, or nobody may ask
};

// All recipes that can do `collective` on `shape`, without segment sizes.
std::vector<Recipe> candidates(const Shape& shape, ech_collective collective);

// Whether `recipe`, at any segment size, is among them.
bool can_do(const Shape& shape, Recipe recipe, ech_collective collective);

// The cheapest recipe for `bytes`, of recipes that send the same the first; with `wanted`, that
// one, its segment chosen if it says none.
// Throws ECH_ERR_INVALID listing the possible ones when `wanted` cannot do it.
Choice choose(const Shape& shape, ech_collective collective, double bytes,
              const std::optional<Recipe>& wanted = std::nullopt);

// A plan that was quickest when all were tried, and what would have been taken without trying.
struct MeasuredPlan {
  Recipe recipe;  // segment 0: uncut
  double seconds = 0;
  Recipe model;
  double model_seconds = 0;

  friend bool operator==(const MeasuredPlan&, const MeasuredPlan&) = default;
};

struct Demand {
  ech_collective collective = ECH_ALLREDUCE;
  double bytes = 0;
};

// The measured plan, which can do it. The model's choice of today is among the rejected ones.
Choice choose_measured(const Shape& shape, const Demand& demand, const MeasuredPlan& measured);

// What compose() needs for `recipe`.
Composition composition_of(const Shape& shape, const Recipe& recipe, ech_collective collective,
                           int root);

std::string explain_text(const Choice& choice);
std::string explain_json(const Choice& choice);

}  // namespace echelon
