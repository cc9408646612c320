// SPDX-License-Identifier: Apache-2.0
// The plans of one communicator: chosen and compiled at first use, then kept. One plan serves all
// sizes of a class (between two powers of two).
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/engine/program.h"
#include "lib/plan/choose.h"
#include "lib/tuning/tuning.h"

namespace echelon {

struct Plan {
  Choice choice;  // for the largest size of the class
  Program whole;  // for operations of one segment
  Program cut;    // for those of several
};

struct PlanKey {
  ech_collective collective;
  std::size_t bytes;  // of the whole vector, > 0
  int root;
};

class Plans {
 public:
  // Throws ECH_ERR_INVALID when `wanted` cannot do an allreduce. Other collectives that it does
  // not fit are chosen by cost.
  Plans(Shape shape, int rank, std::optional<Recipe> wanted, std::vector<TunedPlan> tuned = {});
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // The reference stays valid as long as this object.
  const Plan& get(const PlanKey& key);

  // The choice for exactly this size, with its predictions.
  Choice explain(const PlanKey& key);

  // From now on plans are made for `shape`, which has the same ranks and tiers, by its links alone.
  // Those made before are kept only for the operations that still run.
  void replan(Shape shape);

  // From now on plans are made by `wanted`. Throws as the constructor does, and changes nothing
  // then.
  void want(std::optional<Recipe> wanted);

  bool is_tuned() const { return !tuned_.empty(); }
  const Shape& shape() const { return shape_; }
  std::uint64_t made() const { return made_; }

 private:
  using Made = std::unordered_map<std::uint64_t, std::unique_ptr<Plan>>;
  std::unique_ptr<Plan> make(const PlanKey& key);
  std::optional<Recipe> wanted_for(ech_collective collective) const;
  Choice choose_for(const PlanKey& key) const;

  Shape shape_;
  const int rank_;
  std::optional<Recipe> wanted_;       // wins over
  std::vector<TunedPlan> tuned_;       // what was measured, which wins over the model
  std::map<std::string, Made> plans_;  // by what was wanted, since it may be again
  Made* plans_for_wanted_ = nullptr;   // among them
  std::vector<std::unique_ptr<Plan>> retired_;
  std::uint64_t made_ = 0;
  std::uint64_t last_key_ = 0;  // never a key
  const Plan* last_ = nullptr;
};

}  // namespace echelon
