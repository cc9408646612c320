// SPDX-License-Identifier: Apache-2.0
// Which plans wait for the network, and how many segments they have under way at once.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/base/pipeline.h"
#include "lib/plan/choose.h"
#include "lib/plan/model.h"
#include "tests/unit/plan_machines.h"

namespace echelon {
namespace {

Shape crowded(double network, std::vector<int> hosts = {2, 2, 2, 2}) {
  const int size = static_cast<int>(hosts.size());
  Shape shape = make_shape(layout_of({std::move(hosts), {size}, {}, network}), true);
  shape.cpus_per_rank = 0.25;
  return shape;
}

bool waits(const Shape& shape, const char* plan, double bytes) {
  return predict(shape, parse_recipe(plan), ECH_ALLREDUCE, bytes).waits_for_network;
}

TEST(Plans, KnowWhetherRanksWaitForTheNetwork) {
  const char* const ring = "leader:native/ring@128KiB";
  Shape shape = crowded(kGigabit);
  for (const double bytes : {256e3, 4e6, 64e6}) EXPECT_TRUE(waits(shape, ring, bytes)) << bytes;
  EXPECT_TRUE(waits(shape, "leader:native/ring", 64e3));
  const Prediction p = predict(shape, parse_recipe(ring), ECH_ALLREDUCE, 4e6);
  EXPECT_DOUBLE_EQ(p.message_time, p.message / kGigabit);
  shape.tiers[1].link.latency = 1e-3;
  EXPECT_FALSE(waits(shape, "leader:native/ring", 64e3)) << "latency";
  shape = crowded(kGigabit);
  shape.busy_byte = 2.5e-9;
  EXPECT_TRUE(waits(shape, ring, 16e6));
  shape.busy_byte = 3.8e-9;
  EXPECT_FALSE(waits(shape, ring, 16e6)) << "processors have more than 0.8 of the time to do";
  shape.cpus_per_rank = 1;
  EXPECT_TRUE(waits(shape, ring, 16e6)) << "not where each rank has its own";
  shape = make_shape(layout_of({{2, 2, 2, 2}, {4}, {}, 10 * kGigabit}), true);
  EXPECT_FALSE(waits(shape, "native/ring@256KiB", 16e6)) << "messages of 32 KiB take 27 us";
  EXPECT_TRUE(waits(shape, "native/ring@1MiB", 16e6));
}

// Measured: bench/results, "small calls that slept".
TEST(Plans, DoNotWaitWhereWakesTakeLongerThanTheNetwork) {
  Shape shape = crowded(kGigabit, {2, 2});
  shape.tiers[1].link.latency = 30e-6;
  const char* const plan = "leader:native/recursive_doubling";
  const Prediction small = predict(shape, parse_recipe(plan), ECH_ALLREDUCE, 8 << 10);
  EXPECT_GE(small.message / kGigabit, 50e-6) << "a message takes longer than a wake";
  EXPECT_LE(2 * small.latency, small.seconds) << "and the network longer than all latency";
  EXPECT_FALSE(small.waits_for_network) << "but not than that and a wake in each round";
  EXPECT_TRUE(waits(shape, plan, 16 << 10));
}

TEST(Plans, HaveHalfSegmentsWhereAFewOfThemWaitForTheNetwork) {
  const auto segment = [](const Shape& shape, ech_collective collective, double bytes) {
    return choose(shape, collective, bytes).best.recipe.segment;
  };
  const std::size_t small = 64 << 10, usual = 128 << 10;
  const Shape two = crowded(kGigabit, {4, 4});
  EXPECT_EQ(segment(two, ECH_ALLREDUCE, 1 << 20), small);
  EXPECT_EQ(segment(two, ECH_ALLREDUCE, 4 << 20), small);
  EXPECT_EQ(segment(two, ECH_ALLREDUCE, (1 << 20) - 4), usual);
  EXPECT_EQ(segment(two, ECH_ALLREDUCE, (4 << 20) + 4), usual);
  EXPECT_EQ(segment(two, ECH_ALLREDUCE, 512 << 10), usual) << "all of it is under way at once";
  EXPECT_EQ(segment(two, ECH_ALLREDUCE, 8 << 20), usual) << "its begin and its end are little";
  EXPECT_EQ(segment(two, ECH_BROADCAST, 1 << 20), usual) << "one direction";
  EXPECT_EQ(segment(crowded(kGigabit), ECH_ALLREDUCE, 1 << 20), usual) << "messages of 16 KiB";
  const Shape quick = crowded(10 * kGigabit, {4, 4});
  EXPECT_EQ(segment(quick, ECH_ALLREDUCE, 1 << 20), usual) << "messages of 32 KiB take 27 us";
}

// Nor can a rank sleep while memory moves, by its own hand or by a GPU's.
TEST(Plans, DoNotWaitForMemory) {
  Shape shape = make_shape(layout_of({{2, 2}, {2}, {}, 20e9}), true);
  const Recipe plan = parse_recipe("leader:native/ring@4MiB");
  const Prediction memory = predict(shape, plan, ECH_BROADCAST, 256e6);
  EXPECT_EQ(memory.busiest, "the memory of a host");
  EXPECT_FALSE(memory.waits_for_network);
  shape = crowded(kGigabit);
  shape.staging = shape.tiers[0].link;
  EXPECT_FALSE(waits(shape, "leader:native/ring@128KiB", 16e6));
  shape = crowded(kGigabit);
  shape.host_memory = false;
  EXPECT_FALSE(waits(shape, "leader:native/ring@128KiB", 16e6)) << "of GPUs, which kernels fill";
}

TEST(UnderWay, AreNoMoreSegmentsThanFillThePipeline) {
  const auto under_way = [](const Shape& shape, const char* plan) {
    return predict(shape, parse_recipe(plan), ECH_ALLREDUCE, 16 << 20).under_way;
  };
  const char* const ring = "leader:native/ring@128KiB";
  Shape shape = crowded(10 * kGigabit);
  EXPECT_EQ(under_way(shape, ring), 3) << "one that is worked on, one that comes, one more";
  const std::string told = explain_json(choose(shape, ECH_ALLREDUCE, 16 << 20));
  EXPECT_NE(told.find(R"("segments_under_way":3,)"), std::string::npos) << told;
  EXPECT_EQ(under_way(crowded(kGigabit), ring), kPipelineDepth) << "ranks wait";
  shape = make_shape(layout_of({std::vector<int>(16, 1), {16}, {}, 100 * kGigabit}), true);
  const int own = under_way(shape, "ring@128KiB");
  EXPECT_GT(own, 3) << "30 latencies, and a link that is quick";
  shape.tiers.back().link.latency = 1e-3;
  EXPECT_EQ(under_way(shape, "ring@128KiB"), kPipelineDepth);
  shape = crowded(10 * kGigabit);
  shape.host_memory = false;
  EXPECT_EQ(under_way(shape, ring), kPipelineDepth) << "GPUs";
}

TEST(UnderWay, IsOneLargeOperationInAHost) {
  const auto under_way = [](const Shape& shape, const char* plan, double bytes) {
    return predict(shape, parse_recipe(plan), ECH_ALLREDUCE, bytes).under_way;
  };
  const Shape host = make_shape(layout_of({{4}, {1}}), true);
  EXPECT_EQ(under_way(host, "native", 32 << 10), kPipelineDepth) << "all lanes stay in caches";
  EXPECT_EQ(under_way(host, "native", 64 << 10), 3);
  EXPECT_EQ(under_way(host, "native", 256 << 10), 1);
  EXPECT_EQ(under_way(host, "native@128KiB", 1 << 20), 3) << "segments are not large";
  const Shape hosts = crowded(10 * kGigabit);
  EXPECT_EQ(under_way(hosts, "leader:native/ring", 64 << 10), kPipelineDepth);
  EXPECT_EQ(under_way(hosts, "leader:native/ring", 128 << 10), 3);
  EXPECT_EQ(under_way(hosts, "leader:native/ring", 1 << 20), 3) << "phases overlap";
}

}  // namespace
}  // namespace echelon
