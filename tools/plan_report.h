// SPDX-License-Identifier: Apache-2.0
// Plans for ranks on a fabric, as text: arithmetic only, no command line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "echelon/echelon.h"
#include "lib/fabric/fabric.h"
#include "lib/tuning/tuning.h"

namespace echelon::tools {

struct PlanQuestion {
  int ranks = 0;  // 0: as many as the fabric has
  ech_collective collective = ECH_ALLREDUCE;
  std::vector<std::size_t> sizes;  // bytes, of the larger of both buffers
  ech_dtype dtype = ECH_FLOAT32;   // sizes are rounded down to whole elements
  std::string algorithm;           // "": chosen by cost
  bool rejected = false;           // show the other candidates too
  std::optional<Tuning> tuning;    // used where it was measured on such machines
};

inline constexpr int kMostPlannedRanks = 16384;

// A summary of the machines, their tiers, and a table. Throws ECH_ERR_INVALID when the ranks do
// not fit on the fabric or nothing there can do the collective as asked.
std::string plan_text(const Fabric& fabric, const PlanQuestion& question);

// One object per size and line: size, plan, predicted_us, bound_us, reason, ...
std::string plan_json(const Fabric& fabric, const PlanQuestion& question);

}  // namespace echelon::tools
