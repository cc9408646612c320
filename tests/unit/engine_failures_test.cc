// SPDX-License-Identifier: Apache-2.0
// What a medium throws in the middle of an operation ends the engine, on every way through it.
#include <gtest/gtest.h>

#include <array>
#include <new>

#include "lib/engine/engine.h"

namespace echelon {
namespace {

enum class Moment { kNever, kStart, kDone, kPoll, kProgress, kArm };

// A group whose calls never end, and that throws at one moment.
class ThrowingGroup final : public GroupEngine {
 public:
  explicit ThrowingGroup(Moment moment) : moment_(moment) {}

  int lanes() const override { return 2; }
  void start(int, const GroupWork&) override { reached(Moment::kStart); }
  bool done(int) const override { return reached(Moment::kDone) || failed_ != ECH_OK; }
  bool progress() override { return reached(Moment::kProgress); }
  bool poll(int) override { return reached(Moment::kPoll); }
  void abort() override { failed_ = ECH_ERR_ABORTED; }
  ech_status failed() const override { return failed_; }
  std::span<std::byte> board(int) override { return {}; }
  std::uint64_t bytes() const override { return 0; }

 private:
  int fd() const override { return -1; }
  bool arm() override { return !reached(Moment::kArm); }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}

  // Once: the engine is to settle afterwards.
  bool reached(Moment moment) const {
    if (moment != moment_ || thrown_) return false;
    thrown_ = true;
    throw std::bad_alloc();
  }

  const Moment moment_;
  mutable bool thrown_ = false;
  ech_status failed_ = ECH_OK;
};

constexpr Moment kMoments[] = {Moment::kStart, Moment::kDone, Moment::kProgress, Moment::kArm};

class Engines : public testing::Test {
 protected:
  Engines() {
    Schedule schedule(1, 0);
    schedule.add(GroupCall{0, GroupAction::kAllreduce, Group::range(2), {{schedule.whole(), 0}}});
    program_ = compile(schedule, {ECH_ALLREDUCE, 0, 2, 0}, false);
    EXPECT_TRUE(program_.one_call);
    task_.program = &program_;
    task_.goal = {ECH_ALLREDUCE, 0, 2, 0};
    task_.input = task_.output = value_.data();
    task_.count = task_.segment = value_.size();
    task_.timeout = std::chrono::seconds(20);
    task_.signature.collective = ECH_ALLREDUCE;
  }

  static std::unique_ptr<Engine> engine(Moment moment) {
    EngineParts parts;
    parts.group = std::make_unique<ThrowingGroup>(moment);
    parts.group_ranks = Group::range(2);
    return std::make_unique<Engine>(std::move(parts));
  }

  // `engine` has failed, counts the operation, and refuses others.
  void expect_failed(Engine& engine) {
    EXPECT_EQ(engine.failed(), ECH_ERR_NO_MEMORY) << engine.failure();
    EXPECT_NE(engine.failure().find("under way"), std::string::npos) << engine.failure();
    EXPECT_EQ(engine.counters().operations, 1u);
    EXPECT_FALSE(engine.progress());
    EXPECT_EQ(status_of([&] { engine.run(task_); }), ECH_ERR_NO_MEMORY);
    EXPECT_EQ(engine.counters().operations, 1u);
  }

  template <typename Body>
  static ech_status status_of(Body body) {
    try {
      body();
    } catch (const Error& e) {
      return e.code();
    } catch (const std::exception&) {
      ADD_FAILURE() << "an exception that is no Error";
    }
    return ECH_OK;
  }

  std::array<std::byte, 4> value_{};
  Program program_;
  Task task_;
};

TEST_F(Engines, TheShortCut) {
  for (Moment moment :
       {Moment::kStart, Moment::kDone, Moment::kPoll, Moment::kProgress, Moment::kArm}) {
    SCOPED_TRACE(static_cast<int>(moment));
    const auto e = engine(moment);
    EXPECT_EQ(status_of([&] { e->run(task_); }), ECH_ERR_NO_MEMORY);
    expect_failed(*e);
  }
}

TEST_F(Engines, ABlockingWait) {
  for (Moment moment : kMoments) {
    SCOPED_TRACE(static_cast<int>(moment));
    const auto e = engine(moment);
    Operation* operation = e->start(task_);
    e->wait(*operation);
    EXPECT_EQ(operation->status(), ECH_ERR_NO_MEMORY);
    e->release(operation);
    expect_failed(*e);
  }
}

TEST_F(Engines, ADrain) {
  for (Moment moment : kMoments) {
    SCOPED_TRACE(static_cast<int>(moment));
    const auto e = engine(moment);
    Operation* operation = e->start(task_);
    e->drain(Clock::now() + task_.timeout);
    ASSERT_TRUE(operation->done());
    e->release(operation);
    expect_failed(*e);
  }
}

TEST_F(Engines, ADeadlineCountsFromTheStart) {
  const auto e = engine(Moment::kNever);
  task_.timeout = std::chrono::milliseconds(50);
  Operation* operation = e->start(task_);
  const auto deadline = Clock::now() + task_.timeout;
  EXPECT_FALSE(e->test(*operation));
  while (Clock::now() < deadline) continue;
  EXPECT_TRUE(e->test(*operation)) << "the first look after the deadline";
  EXPECT_EQ(operation->status(), ECH_ERR_TIMEOUT) << e->failure();
  e->release(operation);
}

}  // namespace
}  // namespace echelon
