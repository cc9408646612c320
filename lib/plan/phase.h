// SPDX-License-Identifier: Apache-2.0
// What the cost model takes for one phase by itself, in buffers.
#pragma once

#include <algorithm>

#include "algorithms/algorithm.h"
#include "lib/plan/model.h"

namespace echelon {

inline bool goes_up(ech_collective c) {
  return c == ECH_ALLREDUCE || c == ECH_REDUCE_SCATTER || c == ECH_REDUCE;
}
inline bool goes_down(ech_collective c) {
  return c == ECH_ALLREDUCE || c == ECH_ALLGATHER || c == ECH_BROADCAST;
}

// One phase on one tier, or on all ranks. The speed of a native engine is that of moving and
// adding together.
inline Cost phase(Algorithm algorithm, GroupAction action, int n, bool one_owner) {
  Cost c = one_owner ? cost_of_one_owner(algorithm, action, n) : cost(algorithm, action, n);
  if (algorithm == Algorithm::kNative) c.reduced = c.added = 0;
  return c;
}

// How much more than with even shares the busiest child of a tier moves in a reduce_scatter or an
// allgather, of which each child owns from `least` to `most`. In a ring everything but one share
// passes every edge; otherwise all may send to the one that owns most.
inline double unevenness(int children, Algorithm algorithm, double least, double most) {
  const double others = children - 1.0;
  const double sent = algorithm == Algorithm::kRing ? 0 : others * most;
  return std::max(1 - least, sent) * children / others;
}

}  // namespace echelon
