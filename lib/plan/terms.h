// SPDX-License-Identifier: Apache-2.0
// What predictions, the bound and the choice share.
#pragma once

#include <algorithm>
#include <cmath>

#include "lib/plan/model.h"

namespace echelon {

inline bool is_blockwise(ech_collective c) { return c == ECH_REDUCE_SCATTER || c == ECH_ALLGATHER; }

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

// How much longer the bytes of a segment take that leaves the caches before it is sent on, a tenth
// for each doubling: bench/RESULTS.md, "small segments and leaders".
inline double out_of_cache(double segment) {
  return 1 + 0.1 * std::clamp(std::log2(segment / (128 << 10)), 0.0, 2.0);
}

}  // namespace echelon
