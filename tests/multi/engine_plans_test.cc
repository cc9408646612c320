// SPDX-License-Identifier: Apache-2.0
// The engine plans late what waits for its turn, and meters what it sends.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lib/engine/engine.h"
#include "tests/multi/engine_ranks.h"
#include "tests/multi/engine_tasks.h"
#include "tests/support/late_memory.h"
#include "tests/support/ranks.h"

namespace echelon {
namespace {

using test::kLanes;
using test::make_engine;
using test::Meeting;
using test::Shape;
using test::task_on;
using test::Value;

// Has nothing for operations after `gate` until that has ended, and then something else.
struct Gate final : Planner {
  bool plan(Task& task, std::uint64_t sequence) override {
    ++asked;
    if (sequence > 1 && !gate->done()) return false;
    task.program = sequence > 1 ? &after : &before;
    task.segment = sequence > 1 ? 7 : task.count;
    return true;
  }
  const Operation* gate = nullptr;
  Program before, after;
  int asked = 0;
};

TEST(LatePlans, OperationsWithoutAPlanGetItWhenTheirTurnComes) {
  const Shape shape{{2, 1}};
  const Shape other{{2, 1}, Algorithm::kDirect, Algorithm::kDirect};
  Meeting meeting(shape);
  test::run_threads(shape.size(), [&](int rank) {
    Gate gate;
    Engine engine = make_engine(shape, rank, meeting, nullptr, &gate);
    const Goal goal{ECH_ALLREDUCE, rank, shape.size(), 0};
    gate.before = compile(compose(shape.composition(ECH_ALLREDUCE, 0), rank), goal, true);
    gate.after = compile(compose(other.composition(ECH_ALLREDUCE, 0), rank), goal, true);
    std::vector<std::vector<Value>> data(5, std::vector<Value>(40, rank));
    std::vector<Operation*> running;
    for (auto& values : data) {
      Task task = task_on(values, goal);
      if (running.empty()) {  // the others find it under way, or not: nobody asks for its plan
        task.program = &gate.before;
        task.segment = 10;
      }
      running.push_back(engine.start(task));
      if (running.size() == 2) gate.gate = running.back();
    }
    engine.wait(*running.back());
    for (std::size_t k = 0; k < running.size(); ++k) {
      engine.wait(*running[k]);
      EXPECT_EQ(running[k]->status(), ECH_OK) << engine.failure();
      EXPECT_EQ(data[k], std::vector<Value>(40, 3));
      EXPECT_EQ(running[k]->task().program, k < 2 ? &gate.before : &gate.after);
      engine.release(running[k]);
    }
    EXPECT_GE(gate.asked, 4);
    meeting.everybody.arrive_and_wait();
  });
}

// What was never planned ends with everything else.
TEST(LatePlans, OperationsWithoutAPlanEndWhenTheEngineFails) {
  const Shape shape{{1, 1}};
  Meeting meeting(shape);
  test::run_threads(2, [&](int rank) {
    struct Never final : Planner {
      bool plan(Task&, std::uint64_t) override { return false; }
    } never;
    Engine engine = make_engine(shape, rank, meeting, nullptr, &never);
    std::vector<Value> data(1, rank);
    Task task = task_on(data, {ECH_ALLREDUCE, rank, 2, 0});
    task.timeout = std::chrono::milliseconds(50);
    Operation* operation = engine.start(task);
    EXPECT_TRUE(engine.busy());
    engine.wait(*operation);
    EXPECT_EQ(operation->status(), ECH_ERR_TIMEOUT);
    EXPECT_FALSE(engine.busy());
    engine.release(operation);
    meeting.everybody.arrive_and_wait();
  });
}

// A fence may have to wait for its plan, too; what comes after it waits for its end as ever.
TEST(LatePlans, AFenceGetsItWhenItsTurnComes) {
  const Shape shape{{2, 1}};
  Meeting meeting(shape);
  test::run_threads(shape.size(), [&](int rank) {
    Gate gate;
    Engine engine = make_engine(shape, rank, meeting, nullptr, &gate);
    const Goal goal{ECH_ALLREDUCE, rank, shape.size(), 0};
    gate.before = compile(compose(shape.composition(ECH_ALLREDUCE, 0), rank), goal, true);
    gate.after = gate.before;
    std::vector<Value> first(40, rank), second(40, rank), fenced(1, rank), last(40, rank);
    const auto start = [&](std::vector<Value>& data) { return engine.start(task_on(data, goal)); };
    std::vector<Operation*> running{start(first), start(second)};
    gate.gate = running.back();
    engine.fence(task_on(fenced, goal));
    running.push_back(start(last));
    for (Operation* operation : running) {
      engine.wait(*operation);
      EXPECT_EQ(operation->status(), ECH_OK) << engine.failure();
      engine.release(operation);
    }
    EXPECT_EQ(fenced, std::vector<Value>(1, 3));
    EXPECT_EQ(last, std::vector<Value>(40, 3));
    EXPECT_FALSE(engine.busy());
    meeting.everybody.arrive_and_wait();
  });
}

// Each host sends two thirds of the buffer to be added up, and as much to be copied. The former are
// not timed, but have been on the way beside the latter.
class Metering : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Memory> memory() const {
    return GetParam() ? std::make_unique<test::LateMemory>(kLanes) : nullptr;
  }
};

INSTANTIATE_TEST_SUITE_P(Memories, Metering, testing::Values(false, true));

TEST_P(Metering, CountsWhatIsSentToBeCopied) {
  const Shape shape{{2, 2, 1}};
  constexpr std::size_t kCount = 512 << 10;
  Meeting meeting(shape);
  test::run_threads(shape.size(), [&](int rank) {
    Engine engine = make_engine(shape, rank, meeting, memory());
    const Goal goal{ECH_ALLREDUCE, rank, shape.size(), 0};
    Program program = compile(compose(shape.composition(ECH_ALLREDUCE, 0), rank), goal, false);
    std::vector<double> bytes;
    for (const bool metered : {false, true}) {
      program.copies_tell = metered;
      std::vector<Value> data(kCount, 1);
      Task task = task_on(data, goal);
      task.program = &program;
      task.segment = kCount / 2;
      task.metered = true;
      engine.run(task);
      EXPECT_EQ(data, std::vector<Value>(kCount, shape.size()));
      const auto totals = engine.meter().take(Clock::now());
      ASSERT_EQ(totals.size(), 3u);
      bytes.push_back(0);
      for (const LinkMeter::Total& total : totals) {
        bytes.back() += total.bytes;
        EXPECT_GE(total.seconds, 0);
      }
      EXPECT_EQ(totals[rank / 2].bytes, 0) << "its own host";
    }
    EXPECT_EQ(bytes[0], 0);
    const double host = 2 * 2.0 / 3 * kCount * sizeof(Value);
    EXPECT_NEAR(bytes[1], rank < 4 ? host / 2 : host, host / 100);
    meeting.everybody.arrive_and_wait();
  });
}

}  // namespace
}  // namespace echelon
