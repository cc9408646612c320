// SPDX-License-Identifier: Apache-2.0
// The engine on the reference transports: every collective, many shapes and plans, exact results.
#include "lib/engine/engine.h"

#include <gtest/gtest.h>

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

Value input_at(int rank, std::size_t i) { return (rank + 1) * 1000 + static_cast<Value>(i % 97); }

struct Case {
  ech_collective collective;
  std::size_t count;
  std::size_t segment;
  bool in_place;
  int root;
};

class RankTest {
 public:
  RankTest(const Shape& shape, int rank, const Case& c)
      : shape_(shape), rank_(rank), size_(shape.size()), case_(c) {
    const bool blocks_in = c.collective == ECH_REDUCE_SCATTER;
    const bool blocks_out = c.collective == ECH_ALLGATHER;
    send_.resize(c.count * (blocks_in ? size_ : 1));
    recv_.assign(c.count * (blocks_out ? size_ : 1), -1);
    for (std::size_t i = 0; i < send_.size(); ++i) send_[i] = input_at(rank, i);
  }

  void run(Engine& engine) {
    const Goal goal{case_.collective, rank_, size_, case_.root};
    const Schedule schedule = compose(shape_.composition(case_.collective, case_.root), rank_);
    const Program program = compile(schedule, goal, case_.segment < case_.count);
    Operation* operation = engine.start(task(goal, program));
    engine.wait(*operation);
    EXPECT_EQ(operation->status(), ECH_OK) << engine.failure();
    engine.release(operation);
    check();
  }

 private:
  Task task(const Goal& goal, const Program& program) {
    Task task;
    task.program = &program;
    task.goal = goal;
    task.dtype = ECH_INT64;
    task.count = case_.count;
    task.segment = case_.segment;
    task.timeout = std::chrono::seconds(20);
    result_ = recv_.data();
    const Value* input = send_.data();
    if (case_.in_place && case_.collective == ECH_ALLGATHER) {
      std::copy(send_.begin(), send_.end(), recv_.begin() + rank_ * case_.count);
      input = recv_.data() + rank_ * case_.count;
    } else if (case_.in_place) {
      const bool block = case_.collective == ECH_REDUCE_SCATTER;
      result_ = send_.data() + (block ? rank_ * case_.count : 0);
    }
    const bool root = rank_ == case_.root;
    if (case_.collective == ECH_BROADCAST && !root) input = result_;
    task.input = reinterpret_cast<const std::byte*>(input);
    task.output = reinterpret_cast<std::byte*>(result_);
    if (case_.collective == ECH_REDUCE && !root) task.output = nullptr;
    return task;
  }

  Value expected(std::size_t i) const {
    const std::size_t n = case_.count;
    if (case_.collective == ECH_ALLGATHER) return input_at(static_cast<int>(i / n), i % n);
    if (case_.collective == ECH_BROADCAST) return input_at(case_.root, i);
    const std::size_t at = case_.collective == ECH_REDUCE_SCATTER ? rank_ * n + i : i;
    Value sum = 0;
    for (int r = 0; r < size_; ++r) sum += input_at(r, at);
    return sum;
  }

  void check() const {
    if (case_.collective == ECH_REDUCE && rank_ != case_.root) return;
    for (std::size_t i = 0; i < recv_.size(); ++i)
      ASSERT_EQ(result_[i], expected(i)) << "rank " << rank_ << " element " << i;
  }

  const Shape& shape_;
  const int rank_, size_;
  const Case case_;
  std::vector<Value> send_, recv_;
  Value* result_ = nullptr;
};

constexpr ech_collective kCollectives[] = {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER,
                                           ECH_BROADCAST, ECH_REDUCE};

void run_all(const Shape& shape, bool late_memory = false, const char* faults = "") {
  Meeting meeting(shape);
  meeting.faults = faults;
  test::run_threads(shape.size(), [&](int rank) {
    auto memory = late_memory ? std::make_unique<test::LateMemory>(kLanes) : nullptr;
    Engine engine = make_engine(shape, rank, meeting, std::move(memory));
    for (ech_collective collective : kCollectives)
      for (std::size_t count : {1, 2, 7, 64, 1000, 4099})
        for (std::size_t segment : {count, std::size_t{256}, std::size_t{1000}})
          for (bool in_place : {false, true}) {
            const int root = static_cast<int>(count) % shape.size();
            RankTest(shape, rank, {collective, count, segment, in_place, root}).run(engine);
          }
    meeting.everybody.arrive_and_wait();
  });
}

TEST(Engine, OneHost) { run_all({{4}}); }
TEST(Engine, OneRankPerHost) { run_all({{1, 1, 1}}); }
TEST(Engine, EqualHosts) { run_all({{2, 2}}); }
TEST(Engine, UnequalHosts) { run_all({{3, 1, 2}}); }
TEST(Engine, RanksThatSendNothingToOtherHosts) { run_all({{5, 1}}); }
TEST(Engine, OwnersOfUnequalParts) { run_all({{1, 2}}); }
TEST(Engine, Leaders) {
  run_all({{3, 1, 2}, Algorithm::kNative, Algorithm::kBinomial, Ownership::kLeader});
}
TEST(Engine, LeadersOfTwoRanks) {
  run_all({{2, 2}, Algorithm::kNative, Algorithm::kDirect, Ownership::kLeader});
}
TEST(Engine, DirectInsideAndAcross) {
  run_all({{2, 3}, Algorithm::kDirect, Algorithm::kDirect, Ownership::kSplit});
}
TEST(Engine, HalvingDoubling) {
  run_all({{2, 2, 2}, Algorithm::kNative, Algorithm::kHalvingDoubling, Ownership::kSplit});
}

TEST(Engine, MemoryThatIsDoneLaterOnOneHost) { run_all({{3}}, true); }
TEST(Engine, MemoryThatIsDoneLaterOnUnequalHosts) { run_all({{3, 1, 2}}, true); }
TEST(Engine, MemoryThatIsDoneLaterWithManyOperands) {
  run_all({{2, 3}, Algorithm::kDirect, Algorithm::kDirect, Ownership::kSplit}, true);
}

TEST(Engine, MessagesThatComeLate) {
  run_all({{1, 2}, Algorithm::kNative, Algorithm::kDirect, Ownership::kSplit}, false,
          "delay 100us peer 1");
}

struct Ending {
  ech_status status = ECH_OK;
  int operations = 0;  // that ended well
  std::string text;
};

// Allreduces over a ring of three transports with `faults`, until one fails; by rank.
std::vector<Ending> endings(const std::string& faults, std::chrono::milliseconds timeout) {
  const Shape shape{{1, 1, 1}};
  Meeting meeting(shape);
  meeting.faults = faults;
  std::vector<Ending> all(3);
  test::run_threads(3, [&](int rank) {
    Engine engine = make_engine(shape, rank, meeting);
    const Goal goal{ECH_ALLREDUCE, rank, 3, 0};
    const Program program =
        compile(compose(shape.composition(ECH_ALLREDUCE, 0), rank), goal, false);
    for (Ending& mine = all[rank]; mine.status == ECH_OK && mine.operations < 10;) {
      std::vector<Value> data(300, rank);
      Task task = task_on(data, goal, {&program, 100});
      task.timeout = timeout;
      task.signature.collective = ECH_ALLREDUCE;
      Operation* operation = engine.start(task);
      engine.wait(*operation);
      mine.status = operation->status();
      mine.text = engine.failure();
      engine.release(operation);
      if (mine.status != ECH_OK) break;
      ++mine.operations;
      EXPECT_EQ(data, std::vector<Value>(300, 3));
    }
    meeting.everybody.arrive_and_wait();
  });
  return all;
}

// 12 messages to the next rank in each operation.
TEST(Engine, APeerThatFailsEndsTheOperationAndIsNamed) {
  const auto all = endings("fail after 20 messages", std::chrono::seconds(20));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(all[rank].status, ECH_ERR_PEER) << rank;
    EXPECT_LE(all[rank].operations, 2) << rank;
    EXPECT_NE(all[rank].text.find("peer failed with rank"), std::string::npos) << all[rank].text;
  }
}

TEST(Engine, MessagesThatAreLostEndAtTheDeadline) {
  for (const char* faults : {"drop after 20 messages", "cut after 20 messages"})
    for (const Ending& ending : endings(faults, std::chrono::milliseconds(100))) {
      EXPECT_EQ(ending.status, ECH_ERR_TIMEOUT) << faults;
      EXPECT_LE(ending.operations, 2) << faults;
      EXPECT_NE(ending.text.find("allreduce #"), std::string::npos) << ending.text;
    }
}

TEST(Engine, ManyOperationsAtOnceEndInOrder) {
  const Shape shape{{2, 2}};
  Meeting meeting(shape);
  test::run_threads(shape.size(), [&](int rank) {
    Engine engine = make_engine(shape, rank, meeting);
    const Goal goal{ECH_ALLREDUCE, rank, shape.size(), 0};
    const Program program =
        compile(compose(shape.composition(ECH_ALLREDUCE, 0), rank), goal, false);
    constexpr int kOperations = 50;
    constexpr std::size_t kCount = 300;
    std::vector<std::vector<Value>> data(kOperations);
    std::vector<Operation*> running;
    for (int k = 0; k < kOperations; ++k) {
      data[k].assign(kCount, rank + k);
      running.push_back(engine.start(task_on(data[k], goal, {&program, 100})));
    }
    for (int k = kOperations; k-- > 0;) {
      engine.wait(*running[k]);
      EXPECT_EQ(running[k]->status(), ECH_OK);
      EXPECT_EQ(data[k], std::vector<Value>(kCount, 6 + 4 * k));
      engine.release(running[k]);
    }
    meeting.everybody.arrive_and_wait();
  });
}

// What an engine tells of itself, and nobody knows anything.
class Record : public Watch {
 public:
  int fd() const override { return -1; }
  void check() override {}
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  std::string waiting(std::chrono::nanoseconds since) override {
    longest = std::max(longest, since);
    return {};
  }
  void ask() override { ++asked; }
  bool in_doubt() override { return false; }
  void report(const Error&) noexcept override {}

  std::chrono::nanoseconds longest{0};
  int asked = 0;
};

// Rank 0 is asked why at once. For how long this rank has waited is not made up for that.
TEST(Engine, AFailureIsAskedAboutAtOnce) {
  const Shape shape{{1, 1}};
  Meeting meeting(shape);
  const auto begin = Clock::now();
  test::run_threads(2, [&](int rank) {
    auto medium = with_faults(open_loopback(), parse_faults("fail peer 1"));
    meeting.messages[rank] = medium->address();
    meeting.everybody.arrive_and_wait();
    Record record;
    EngineParts parts;
    parts.transport = medium->connect(rank, meeting.messages);
    parts.watch = &record;
    Engine engine(std::move(parts));
    if (rank == 0) {
      const Goal goal{ECH_ALLREDUCE, 0, 2, 0};
      const Program program = compile(compose(shape.composition(ECH_ALLREDUCE, 0), 0), goal, false);
      Value value = 1;
      Operation* operation = engine.start(task_on({&value, 1}, goal, {&program, 1}));
      engine.wait(*operation);
      EXPECT_EQ(operation->status(), ECH_ERR_PEER);
      EXPECT_GT(record.asked, 0);
      EXPECT_LE(record.longest, Clock::now() - begin);
      engine.release(operation);
    }
    meeting.everybody.arrive_and_wait();
  });
}

TEST(Engine, ADeadlineEndsTheOperationAndNamesIt) {
  const Shape shape{{1, 1}};
  Meeting meeting(shape);
  test::run_threads(2, [&](int rank) {
    Engine engine = make_engine(shape, rank, meeting);
    if (rank == 0) {
      const Goal goal{ECH_ALLREDUCE, 0, 2, 0};
      const Program program = compile(compose(shape.composition(ECH_ALLREDUCE, 0), 0), goal, false);
      Value value = 1;
      Task task = task_on({&value, 1}, goal, {&program, 1});
      task.timeout = std::chrono::milliseconds(50);
      task.signature.collective = ECH_ALLREDUCE;
      Operation* operation = engine.start(task);
      engine.wait(*operation);
      EXPECT_EQ(operation->status(), ECH_ERR_TIMEOUT);
      EXPECT_NE(engine.failure().find("allreduce #0"), std::string::npos) << engine.failure();
      EXPECT_THROW(engine.start(task), Error);
      engine.release(operation);
    }
    meeting.everybody.arrive_and_wait();
  });
}

}  // namespace
}  // namespace echelon
