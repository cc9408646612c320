// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace echelon::perf {
namespace {

TEST(Summarize, MedianMeanAndNearestRank) {
  std::vector<double> samples(100);
  std::iota(samples.rbegin(), samples.rend(), 1.0);  // 100 ... 1
  const Statistics s = summarize(samples);
  EXPECT_EQ(s.median, 50.5);
  EXPECT_EQ(s.p99, 99);
  EXPECT_EQ(s.mean, 50.5);
}

TEST(Summarize, FewSamples) {
  EXPECT_EQ(summarize({}).median, 0);
  EXPECT_EQ(summarize({7}).median, 7);
  EXPECT_EQ(summarize({7}).p99, 7);
  EXPECT_EQ(summarize({1, 9, 2}).median, 2);
  EXPECT_EQ(summarize({1, 9, 2}).p99, 9);
}

// Who leaves the barrier late, and who early.
constexpr Moments kRanks[] = {{5, 6}, {9, 9.5}, {1, 8}};

double lasts(ech_collective collective, int root, bool one_clock) {
  Moments last;
  for (int r = 0; r < 3; ++r) {
    const Moments m = counted(kRanks[r], collective, r == root, one_clock);
    last = {std::max(last.from, m.from), std::max(last.to, m.to)};
  }
  return last.to - last.from;
}

TEST(Counted, WhereAllWaitForAllTheSlowestRanksOwnTime) {
  for (const ech_collective c : {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER})
    for (const bool one_clock : {false, true}) EXPECT_EQ(lasts(c, 0, one_clock), 7);
}

TEST(Counted, WhereTheyDoNotFromOrToTheRoot) {
  EXPECT_EQ(lasts(ECH_BROADCAST, 0, true), 4.5);
  EXPECT_EQ(lasts(ECH_BROADCAST, 2, true), 8.5);
  EXPECT_EQ(lasts(ECH_REDUCE, 1, true), 0.5);
  EXPECT_EQ(lasts(ECH_BROADCAST, 0, false), 7);  // clocks that differ say nothing
  EXPECT_EQ(lasts(ECH_REDUCE, 1, false), 7);
}

TEST(BusFactor, CountsWhatALinkMustCarry) {
  EXPECT_DOUBLE_EQ(bus_factor(ECH_ALLREDUCE, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(ECH_REDUCE_SCATTER, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(ECH_ALLGATHER, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(ECH_BROADCAST, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(ECH_REDUCE, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(ECH_BARRIER, 4), 0);
  EXPECT_DOUBLE_EQ(bus_factor(ECH_ALLREDUCE, 1), 0);
}

TEST(Effort, ShortOperationsAreBatched) {
  const Effort e = effort(39e-6, {});
  EXPECT_EQ(e.batch, 512);
  EXPECT_EQ(e.samples, 100);
  EXPECT_EQ(effort(1e-12, {}).batch, kLargestBatch);
  EXPECT_EQ(effort(0.1, {}).batch, 1);
  EXPECT_EQ(effort(2e-6, {.batching = false}).batch, 1);
  EXPECT_EQ(effort(39e-6, {.sample = 1e-3}).batch, 25);
  EXPECT_EQ(effort(39e-6, {.sample = 0}).batch, 1);
}

TEST(Effort, SlowOnesGetFewerSamples) {
  EXPECT_EQ(effort(0.5, {.seconds = 4}).samples, 8);
  EXPECT_EQ(effort(10, {.seconds = 4}).samples, 3);
  EXPECT_EQ(effort(10, {.seconds = 0}).samples, 100);
  EXPECT_EQ(effort(10, {.most_samples = 2, .seconds = 4}).samples, 2);
  EXPECT_EQ(effort(1e-9, {.seconds = 4, .batching = false}).samples, 100);
}

}  // namespace
}  // namespace echelon::perf
