// SPDX-License-Identifier: Apache-2.0
// How many segments may be under way at once, of one operation or of several one after the other.
// Each goes through memory of its own lane; the fewer lanes there are, the more of that is still in
// a cache when it is used again. Measured: bench/results, "the first lanes". The engine is told
// for the largest size of a class, so sizes above half a limit count as those at it.
#pragma once

#include <algorithm>
#include <cmath>

#include "lib/base/pipeline.h"
#include "lib/plan/model.h"

namespace echelon {

struct Pipelined {
  double operation, segment;  // bytes
  double busiest, all;  // of a segment, s: how long its busiest resource is busy, and it takes
};

// What all lanes touch stays in caches for operations that are smaller: one call in a host, others.
inline constexpr double kSmallInHost = 64 << 10, kSmallElsewhere = 128 << 10;

// A call in a host has nothing to overlap with. From here on one after the other is quickest.
inline constexpr double kAlone = 256 << 10;

// One more than fill a pipeline, or all there may be: in the memory of GPUs, for what their streams
// take is known less well, and not in caches.
inline int segments_under_way(const Shape& shape, const Recipe& recipe, const Pipelined& work) {
  const bool one_call = shape.tiers.size() == 1 && recipe.algorithms.front() == Algorithm::kNative;
  const bool small = work.operation < (one_call ? kSmallInHost : kSmallElsewhere);
  if (!shape.host_memory || small || !(work.busiest * kPipelineDepth > work.all))
    return kPipelineDepth;
  if (one_call && work.segment >= kAlone) return 1;
  return std::min(kPipelineDepth, 1 + static_cast<int>(std::ceil(work.all / work.busiest)));
}

}  // namespace echelon
