// SPDX-License-Identifier: Apache-2.0
// What the model and the bound know of hosts whose ranks outnumber their CPUs.
#pragma once

#include <algorithm>

#include "lib/plan/model.h"

namespace echelon {

// Whether processors move what crosses the tier, and ranks outnumber them.
inline bool is_crowded_memory(const Shape& shape, const TierShape& tier) {
  return shape.cpus_per_rank < 1 && tier.kind == TierKind::kHost &&
         tier.link.kind == LinkKind::kShm;
}

// The speed of a host is that of all its ranks at once. Where they outnumber its CPUs, few that
// work while others wait are quicker: what all n move, and none of them more than `moved`, takes
// the time in which each of them moves so much.
inline double by_few(const Shape& shape, double moved, double in_all, int n) {
  return std::max(in_all / n, moved * shape.cpus_per_rank);
}

}  // namespace echelon
