// SPDX-License-Identifier: Apache-2.0
// Samples to figures. bench/README.md derives the factors.
#pragma once

#include <vector>

#include "echelon/echelon.h"

namespace echelon::perf {

struct Statistics {
  double median = 0, p99 = 0, mean = 0;
};

// p99 is the smallest sample that at least 99 of 100 do not exceed. All 0 without samples.
Statistics summarize(std::vector<double> samples);

// One rank's begin and end of a sample, s.
struct Moments {
  double from = 0, to = 0;
};

// What this rank's moments count for. A sample lasts from the last `from` of the ranks to the last
// `to`: as long as the slowest rank's own time. But of a broadcast or a reduce, in which not all
// wait for all, that would be long for who leaves the barrier early, and short for who leaves it
// late. There it is, with one clock for all ranks, the time from the root's begin to the last end,
// or from the last begin to the root's end.
Moments counted(Moments rank, ech_collective collective, bool root, bool one_clock);

// Bytes that each rank's link must carry per byte of the reported size.
double bus_factor(ech_collective collective, int ranks);

// What a size is worth measuring.
struct Effort {
  int samples = 1;
  int batch = 1;  // operations per sample, back to back
};

// That a batch should last, in s. In a barrier a shaped link saves up a burst, 1 ms at 1 Gbit/s,
// and would be the faster the shorter the batch.
inline constexpr double kSampleTime = 20e-3;

struct EffortLimits {
  int most_samples = 100;
  int least_samples = 3;
  double seconds = 0;  // for all samples; 0: any
  bool batching = true;
  double sample = kSampleTime;  // that a batch should last; 0: one operation
};

inline constexpr int kLargestBatch = 1000;

Effort effort(double seconds_per_operation, const EffortLimits& limits);

}  // namespace echelon::perf
