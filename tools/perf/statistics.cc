// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace echelon::perf {

Statistics summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const std::size_t n = samples.size();
  Statistics s;
  s.median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
  s.p99 = samples[(99 * n + 99) / 100 - 1];
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(n);
  return s;
}

Moments counted(Moments rank, ech_collective collective, bool root, bool one_clock) {
  const bool broadcasts = collective == ECH_BROADCAST, reduces = collective == ECH_REDUCE;
  if (!one_clock || !(broadcasts || reduces)) return {0, rank.to - rank.from};
  return {root || reduces ? rank.from : 0, root || broadcasts ? rank.to : 0};
}

double bus_factor(ech_collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case ECH_ALLREDUCE:
      return 2 * others;
    case ECH_REDUCE_SCATTER:
    case ECH_ALLGATHER:
      return others;
    case ECH_BROADCAST:
    case ECH_REDUCE:
      return 1;
    case ECH_BARRIER:
      break;
  }
  return 0;
}

Effort effort(double seconds, const EffortLimits& limits) {
  const double each = std::max(seconds, 1e-9);
  Effort e;
  if (limits.batching)
    e.batch = static_cast<int>(std::clamp(limits.sample / each, 1.0, double{kLargestBatch}));
  e.samples = limits.most_samples;
  if (limits.seconds > 0) {
    const double fitting = std::min(limits.seconds / (each * e.batch), 1e9);
    const int least = std::min(limits.least_samples, limits.most_samples);
    e.samples = std::clamp(static_cast<int>(fitting), least, limits.most_samples);
  }
  return e;
}

}  // namespace echelon::perf
