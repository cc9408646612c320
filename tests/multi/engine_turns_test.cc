// SPDX-License-Identifier: Apache-2.0
// The turns that the engine gives the calls of a group: members that make one call at a time, in
// order of turn, as NCCL does, come to the end of many operations that overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <set>

#include "algorithms/hierarchical.h"
#include "lib/engine/engine.h"
#include "tests/multi/engine_tasks.h"
#include "tests/support/ranks.h"
#include "transports/loopback/loopback_group.h"
#include "transports/loopback/loopback_transport.h"

namespace echelon {
namespace {

using test::Value;

// A group that holds calls back until those of lower turns have ended.
class TurnedGroup final : public GroupEngine {
 public:
  explicit TurnedGroup(std::unique_ptr<GroupEngine> group) : group_(std::move(group)) {}

  int lanes() const override { return group_->lanes(); }
  void start(int lane, const GroupWork& work) override {
    EXPECT_FALSE(work.last && work.action == GroupAction::kReduceScatter) << "it is sent on";
    EXPECT_FALSE(work.last && work.op == ECH_AVG) << "it is divided";
    if (work.buffers > 0) {
      EXPECT_LT(lane, work.lanes);
    }
    buffers_.insert(work.buffers);
    lanes_used_.push_back(lane);
    most_lanes_ = std::max(most_lanes_, work.op == ECH_SUM ? work.lanes : 0);
    fewest_lanes_ = std::min(fewest_lanes_, work.lanes);
    last_sums_ += work.last && work.op == ECH_SUM ? 1 : 0;
    EXPECT_TRUE(waiting_.emplace(work.turn, std::pair(lane, work)).second) << work.turn;
    progress();
  }
  bool done(int lane) const override {
    for (const auto& [turn, call] : waiting_)
      if (call.first == lane) return false;
    return group_->done(lane);
  }
  bool progress() override {
    bool moved = group_->progress();
    while (calling_ < 0 || group_->done(calling_)) {
      calling_ = -1;
      const auto next = waiting_.find(turn_);
      if (next == waiting_.end()) break;
      const auto [lane, work] = next->second;
      waiting_.erase(next);
      ++turn_;
      calling_ = lane;
      group_->start(lane, work);
      moved = true;
    }
    return moved;
  }
  void abort() override { group_->abort(); }
  ech_status failed() const override { return group_->failed(); }
  std::span<std::byte> board(int member) override { return group_->board(member); }
  std::uint64_t bytes() const override { return group_->bytes(); }
  int fd() const override { return group_->fd(); }
  bool arm() override { return !progress() && group_->arm(); }
  void disarm() override { group_->disarm(); }
  void sleep(std::chrono::nanoseconds limit) override { group_->sleep(limit); }

  std::uint64_t turn() const { return turn_; }
  std::uint64_t last_sums() const { return last_sums_; }
  // Of the calls: on how many the segments of their operations take turns.
  int fewest_lanes() const { return fewest_lanes_; }
  int most_lanes_of_sums() const { return most_lanes_; }
  const std::set<std::size_t>& buffers() const { return buffers_; }
  const std::vector<int>& lanes_used() const { return lanes_used_; }

 private:
  const std::unique_ptr<GroupEngine> group_;
  std::map<std::uint64_t, std::pair<int, GroupWork>> waiting_;
  std::uint64_t turn_ = 0;
  std::uint64_t last_sums_ = 0;  // calls of sums that were the last of a segment
  std::set<std::size_t> buffers_;
  std::vector<int> lanes_used_;
  int fewest_lanes_ = 1000, most_lanes_ = 0;
  int calling_ = -1;
};

constexpr int kRanks = 4;  // on two hosts
constexpr int kLanes = 3;

struct Meeting {
  std::vector<std::string> messages = std::vector<std::string>(kRanks);
  std::vector<std::string> groups = std::vector<std::string>(kRanks);
  std::barrier<> everybody{kRanks};
};

Engine make_engine(int rank, Meeting& meeting, const TurnedGroup*& group) {
  auto medium = open_loopback();
  auto group_medium = make_loopback_group(kLanes);
  meeting.messages[rank] = medium->address();
  meeting.groups[rank] = group_medium->address();
  meeting.everybody.arrive_and_wait();
  EngineParts parts;
  parts.transport = medium->connect(rank, meeting.messages);
  const int first = rank / 2 * 2;
  const std::vector<std::string> members = {meeting.groups[first], meeting.groups[first + 1]};
  auto turned = std::make_unique<TurnedGroup>(group_medium->connect(rank - first, members));
  group = turned.get();
  parts.group = std::move(turned);
  parts.group_ranks = Group({first, first + 1});
  meeting.everybody.arrive_and_wait();
  return Engine(std::move(parts));
}

Composition on_two_hosts(ech_collective collective) {
  Composition c;
  c.collective = collective;
  c.size = kRanks;
  c.tiers.push_back({{Group({0, 1}), Group({2, 3})}, Algorithm::kNative});
  c.tiers.push_back({{Group::range(kRanks)}, Algorithm::kRing});
  return c;
}

constexpr std::size_t kSegment = 256;  // elements

// Of the operations that are tried; those of broadcasts, which add nothing, tell them from sums.
ech_op op_of(std::size_t k) {
  if (k % 3 == 0) return ECH_MAX;
  return k % 5 == 4 ? ECH_AVG : ECH_SUM;
}

Value result_of(ech_op op) { return op == ECH_SUM ? 10 : op == ECH_AVG ? 2 : 1; }

void wait_for_all(Engine& engine, const std::vector<Operation*>& running) {
  for (Operation* operation : running) {
    engine.wait(*operation);
    EXPECT_EQ(operation->status(), ECH_OK) << engine.failure();
  }
}

// Sums of one element and of many segments, of which so many are under way at once, and broadcasts,
// which have one call per segment.
void run_rank(int rank, Meeting& meeting, std::uint32_t under_way) {
  const TurnedGroup* group = nullptr;
  Engine engine = make_engine(rank, meeting, group);
  const Goal sum{ECH_ALLREDUCE, rank, kRanks, 0}, copy{ECH_BROADCAST, rank, kRanks, 0};
  Program sums = compile(compose(on_two_hosts(ECH_ALLREDUCE), rank), sum, true);
  sums.under_way = under_way;
  const Program copies = compile(compose(on_two_hosts(ECH_BROADCAST), rank), copy, true);
  EXPECT_EQ(sums.calls, 2u);
  EXPECT_EQ(copies.calls, 1u);
  std::vector<std::vector<Value>> data;
  std::vector<Operation*> running;
  std::uint64_t calls = 0, sums_cut = 0;
  std::set<std::size_t> bytes;
  for (std::size_t k = 0; k < 24; ++k) {
    const std::size_t count = k % 4 == 0 ? 1 : 100 * k;
    const bool sums_up = op_of(k) != ECH_MAX;
    data.emplace_back(count, rank + 1);
    Task task =
        test::task_on(data.back(), sums_up ? sum : copy, {sums_up ? &sums : &copies, kSegment});
    task.op = op_of(k);
    task.bytes = count * sizeof(Value);
    bytes.insert(task.bytes);
    running.push_back(engine.start(task));
    const std::size_t segments = (count + kSegment - 1) / kSegment;
    calls += segments * task.program->calls;
    sums_cut += task.op == ECH_SUM ? segments : 0;
  }
  wait_for_all(engine, running);
  for (std::size_t k = 0; k < data.size(); ++k)
    EXPECT_EQ(data[k], std::vector<Value>(data[k].size(), result_of(op_of(k)))) << k;
  EXPECT_EQ(group->turn(), calls) << "a turn was left out";
  EXPECT_EQ(group->last_sums(), sums_cut) << "results of sums are not read again";
  EXPECT_EQ(group->buffers(), bytes) << "of operations, not of segments";
  EXPECT_EQ(group->fewest_lanes(), under_way == 0 ? kLanes : static_cast<int>(under_way));
  EXPECT_EQ(group->most_lanes_of_sums(), group->fewest_lanes()) << "also those of one segment";
  for (Operation* operation : running) engine.release(operation);
  meeting.everybody.arrive_and_wait();
}

Goal sum_of_pair(int rank) { return {ECH_ALLREDUCE, rank % 2, 2, 0}; }

Program one_call(int rank) {
  Composition pair;
  pair.collective = ECH_ALLREDUCE;
  pair.size = 2;
  pair.tiers.push_back({{Group({0, 1})}, Algorithm::kNative});
  return compile(compose(pair, rank % 2), sum_of_pair(rank), true);
}

// Of two ranks, which one call does: at once, and as a segment when something else is under way.
void run_pair(int rank, Meeting& meeting) {
  const TurnedGroup* group = nullptr;
  Engine engine = make_engine(rank, meeting, group);
  const Goal sum = sum_of_pair(rank);
  const Program program = one_call(rank);
  ASSERT_TRUE(program.one_call);
  for (const ech_op op : {ECH_SUM, ECH_AVG}) {
    std::vector<Value> data(100, rank % 2 + 1), more = data;
    Task task = test::task_on(data, sum, {&program, data.size()});
    task.op = op;
    task.bytes = data.size() * sizeof(Value);
    engine.run(task);
    task.input = task.output = reinterpret_cast<std::byte*>(more.data());
    Operation* operation = engine.start(task);
    engine.wait(*operation);
    engine.release(operation);
    const std::vector<Value> expected(data.size(), op == ECH_SUM ? 3 : 1);
    EXPECT_EQ(data, expected);
    EXPECT_EQ(more, expected);
  }
  EXPECT_EQ(group->last_sums(), 2u);
  EXPECT_EQ(group->buffers(), std::set<std::size_t>{0}) << "the operation is the call";
  meeting.everybody.arrive_and_wait();
}

// Operations that take the first lane only, between others that take them all.
void run_on_first_lane(int rank, Meeting& meeting) {
  const TurnedGroup* group = nullptr;
  Engine engine = make_engine(rank, meeting, group);
  const Program any = one_call(rank);
  Program first = any;
  first.under_way = 1;
  const std::vector<const Program*> programs = {&first, &any, &first, &any, &any, &first, &first};
  for (std::size_t k = 0; k < programs.size(); ++k) {
    std::vector<Value> data(100, rank % 2 + 1);
    Task task = test::task_on(data, sum_of_pair(rank), {programs[k], data.size()});
    task.bytes = data.size() * sizeof(Value);
    if (k % 2 == 0) {
      engine.run(task);  // at once
    } else {
      Operation* operation = engine.start(task);
      engine.wait(*operation);
      engine.release(operation);
    }
    EXPECT_EQ(data, std::vector<Value>(100, 3)) << k;
  }
  EXPECT_EQ(group->lanes_used(), (std::vector{0, 1, 0, 1, 2, 0, 0}));
  meeting.everybody.arrive_and_wait();
}

TEST(EngineTurns, OperationsTakeTheLanesOfTheirPlan) {
  Meeting meeting;
  test::run_threads(
      kRanks, [&](int rank) { run_on_first_lane(rank, meeting); }, std::chrono::seconds(110));
}

TEST(EngineTurns, OfOneCallSayWhetherItsResultIsReadAgain) {
  Meeting meeting;
  test::run_threads(
      kRanks, [&](int rank) { run_pair(rank, meeting); }, std::chrono::seconds(110));
}

TEST(EngineTurns, OperationsThatOverlapComeToTheirEnds) {
  for (const std::uint32_t under_way : {0, 1, 2}) {
    Meeting meeting;
    test::run_threads(
        kRanks, [&](int rank) { run_rank(rank, meeting, under_way); }, std::chrono::seconds(110));
  }
}

}  // namespace
}  // namespace echelon
