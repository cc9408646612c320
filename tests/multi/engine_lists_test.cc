// SPDX-License-Identifier: Apache-2.0
// The engine on lists of buffers: exact results on unequal hosts, and what it copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/multi/engine_ranks.h"
#include "tests/support/late_memory.h"
#include "tests/support/ranks.h"

namespace echelon {
namespace {

using test::kLanes;
using test::make_engine;
using test::Meeting;
using test::Shape;

// Host memory that counts what it is asked for.
class CountingMemory final : public Memory {
 public:
  struct Counts {
    std::map<int, std::size_t> reserved;  // by lane, of work memory
    std::size_t copied = 0, scaled = 0;   // bytes, elements
  };
  explicit CountingMemory(Counts& counts) : host_(kLanes), counts_(counts) {}

  std::byte* reserve(int lane, Use use, std::size_t bytes) override {
    if (use == Use::kWork) counts_.reserved[lane] = std::max(counts_.reserved[lane], bytes);
    return host_.reserve(lane, use, bytes);
  }
  void copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) override {
    counts_.copied += bytes;
    host_.copy(lane, to, from, bytes);
  }
  void reduce(int lane, const Reduction& work) override { host_.reduce(lane, work); }
  void divide(int lane, const Division& work) override { host_.divide(lane, work); }
  void scale(int lane, const Scaling& work) override {
    counts_.scaled += work.count;
    host_.scale(lane, work);
  }
  bool done(int lane) override { return host_.done(lane); }
  void settle() noexcept override { host_.settle(); }
  Waitable* news() override { return host_.news(); }

 private:
  HostMemory host_;
  Counts& counts_;
};

// Buffers with gaps between them, or without.
struct Buffers {
  Buffers(int rank, const std::vector<std::size_t>& counts, std::size_t gap)
      : counts(counts), gap(gap) {
    for (std::size_t count : counts) data.resize(data.size() + count + gap, -7);
    for_each([&](double& value, std::size_t i) { value = (rank + 1) * (1.0 + i % 97); });
  }

  template <typename Use>
  void for_each(Use use) {
    std::size_t at = 0, i = 0;
    for (std::size_t count : counts) {
      for (std::size_t k = 0; k < count; ++k) use(data[at + k], i++);
      at += count + gap;
    }
  }

  void add_to(BufferList& list, Buffers& out) {
    std::size_t at = 0;
    for (std::size_t count : counts) {
      list.add({reinterpret_cast<std::byte*>(data.data() + at),
                reinterpret_cast<std::byte*>(out.data.data() + at), count});
      at += count + gap;
    }
  }

  std::size_t count_of_gaps() { return std::count(data.begin(), data.end(), -7); }

  std::vector<std::size_t> counts;
  std::size_t gap;
  std::vector<double> data;
};

struct Case {
  std::vector<std::size_t> counts;
  std::size_t segment;
  std::size_t gap = 1;
  bool in_place = false;
  BufferList::Factors factors = {};
};

void run_on(Engine& engine, const Shape& shape, int rank, const Case& c) {
  Buffers in(rank, c.counts, c.gap), other(rank, c.counts, c.gap);
  Buffers& out = c.in_place ? in : other;
  const Buffers before = in;
  auto list = std::make_shared<BufferList>(sizeof(double), c.factors, true);
  in.add_to(*list, out);
  const Goal goal{ECH_ALLREDUCE, rank, shape.size(), 0};
  const Program program = compile(compose(shape.composition(ECH_ALLREDUCE, 0), rank), goal, false);
  Task task;
  task.program = &program;
  task.goal = goal;
  task.dtype = ECH_FLOAT64;
  task.op = ECH_AVG;
  task.count = list->count();
  task.segment = std::min(c.segment, task.count);
  task.list = list;
  task.timeout = std::chrono::seconds(30);
  Operation* operation = engine.start(task);
  engine.wait(*operation);
  EXPECT_EQ(operation->status(), ECH_OK) << engine.failure();
  engine.release(operation);
  const double mean = c.factors.before * c.factors.after * (shape.size() + 1) / 2.0;
  std::size_t wrong = 0;
  out.for_each([&](double value, std::size_t i) { wrong += value != mean * (1.0 + i % 97); });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(out.count_of_gaps(), c.gap * c.counts.size()) << "something was written beside";
  if (!c.in_place) {
    EXPECT_EQ(in.data, before.data);
  }
}

const std::vector<std::size_t> kShapes[] = {
    {1}, {1, 1}, {5, 1000, 1, 1, 300}, std::vector<std::size_t>(40, 3), {4099, 2, 777}};

void run_all(const Shape& shape, bool late_memory) {
  Meeting meeting(shape);
  test::run_threads(shape.size(), [&](int rank) {
    auto memory = late_memory ? std::make_unique<test::LateMemory>(kLanes) : nullptr;
    Engine engine = make_engine(shape, rank, meeting, std::move(memory));
    for (const auto& counts : kShapes)
      for (std::size_t segment : {64, 1000, 10'000})
        for (bool in_place : {false, true})
          for (BufferList::Factors factors : {BufferList::Factors{}, {0.5, 1}, {1, 4}, {0.25, 2}})
            for (std::size_t gap : {0, 3})
              run_on(engine, shape, rank, {counts, segment, gap, in_place, factors});
    meeting.everybody.arrive_and_wait();
  });
}

TEST(EngineLists, OneRank) { run_all({{1}}, false); }
TEST(EngineLists, OneHost) { run_all({{3}}, false); }
TEST(EngineLists, UnequalHosts) { run_all({{3, 1, 2}}, false); }
TEST(EngineLists, MemoryThatIsDoneLater) { run_all({{2, 1}}, true); }
TEST(EngineLists, Leaders) {
  run_all({{2, 1}, Algorithm::kNative, Algorithm::kBinomial, Ownership::kLeader}, false);
}

// What rank 0 of two hosts copies, scales and reserves.
CountingMemory::Counts counts_of(const Case& c) {
  const Shape shape{{1, 1}};
  Meeting meeting(shape);
  CountingMemory::Counts counted;
  test::run_threads(2, [&](int rank) {
    CountingMemory::Counts others;
    auto memory = std::make_unique<CountingMemory>(rank == 0 ? counted : others);
    Engine engine = make_engine(shape, rank, meeting, std::move(memory));
    run_on(engine, shape, rank, c);
    meeting.everybody.arrive_and_wait();
  });
  return counted;
}

TEST(EngineLists, OneBufferIsNotCopied) {
  const auto counted = counts_of({{10'000}, 1000, 1, true});
  EXPECT_EQ(counted.copied, 0u);
  EXPECT_TRUE(counted.reserved.empty());
}

TEST(EngineLists, AdjacentBuffersAreNotCopied) {
  const auto counted = counts_of({{100, 5000, 17}, 1000, 0, true});
  EXPECT_EQ(counted.copied, 0u);
  EXPECT_TRUE(counted.reserved.empty());
}

TEST(EngineLists, SegmentsOfSeveralBuffersAreCopiedThereAndBack) {
  const auto counted = counts_of({{2500, 7500}, 1000, 1, true});
  EXPECT_EQ(counted.copied, 2 * 1000 * sizeof(double)) << "one of ten segments";
  ASSERT_EQ(counted.reserved.size(), 1u);
  EXPECT_EQ(counted.reserved.begin()->second, 1000 * sizeof(double));
}

TEST(EngineLists, WhatIsReservedIsASegmentOfEveryLane) {
  const auto counted = counts_of({std::vector<std::size_t>(1000, 33), 1000, 1, true});
  EXPECT_EQ(counted.copied, 2 * 33'000 * sizeof(double));
  ASSERT_EQ(counted.reserved.size(), static_cast<std::size_t>(kLanes));
  for (const auto& [lane, bytes] : counted.reserved) EXPECT_EQ(bytes, 1000 * sizeof(double));
}

TEST(EngineLists, FactorsScaleWhileCopying) {
  const auto counted = counts_of({{2500, 7500}, 1000, 1, true, {0.5, 3}});
  EXPECT_EQ(counted.copied, 0u);
  EXPECT_EQ(counted.scaled, 2 * 10'000u);
}

}  // namespace
}  // namespace echelon
