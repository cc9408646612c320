// SPDX-License-Identifier: Apache-2.0
// By what a rank that waits for a call of its group is woken.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "lib/base/fd.h"
#include "lib/engine/engine.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;

// Its calls end when it has been slept on alone so often, the times before in vain.
class SleepyGroup final : public GroupEngine {
 public:
  int lanes() const override { return 1; }
  void start(int, const GroupWork&) override {
    slept = 0;
    began = Clock::now();
  }
  bool done(int) const override { return slept >= until; }
  bool progress() override { return false; }
  void abort() override { until = 0; }
  ech_status failed() const override { return until == 0 ? ECH_ERR_ABORTED : ECH_OK; }
  std::span<std::byte> board(int) override { return {}; }
  std::uint64_t bytes() const override { return 0; }

  int until = 1, slept = 0;
  Clock::time_point began;
  Clock::duration slept_after{};

 private:
  int fd() const override { return -1; }
  bool arm() override { return true; }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds limit) override {
    slept_after = Clock::now() - began;
    if (++slept < until) std::this_thread::sleep_for(limit);
  }
};

// Refuses to wake anybody; when it has done so `refusals` times, what was to leave has left. With
// early news it wakes everybody, until it is looked at.
class BusyTransport final : public Transport {
 public:
  void send(int, Tag, std::span<const std::byte>, Completion&) override {}
  void receive(int, Tag, std::span<std::byte>, Completion&) override {}
  bool progress() override {
    ++polled;
    if (early) early->on_look();
    early.reset();
    return false;
  }
  bool all_left() override { return left; }
  void abort() override {}
  Counters counters() const override { return {}; }

  struct Early {
    Fd news;
    std::function<void()> on_look;
  };
  std::optional<Early> early;
  std::function<void()> on_arm;
  bool left = true, armed = false;
  int polled = 0, refusals = 1;

 private:
  int fd() const override { return early ? early->news.get() : -1; }
  bool arm() override {
    armed = true;
    if (on_arm) on_arm();
    if (early) return true;
    left = --refusals <= 0;
    return false;
  }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}
};

class Sleeping : public testing::Test {
 protected:
  explicit Sleeping(Clock::duration spin = 0ns) {
    auto group = std::make_unique<SleepyGroup>();
    auto transport = std::make_unique<BusyTransport>();
    group_ = group.get();
    transport_ = transport.get();
    EngineParts parts;
    parts.group = std::move(group);
    parts.transport = std::move(transport);
    parts.group_ranks = Group::range(2);
    parts.spin = spin;
    engine_ = std::make_unique<Engine>(std::move(parts));
    Schedule schedule(1, 0);
    schedule.add(GroupCall{0, GroupAction::kAllreduce, Group::range(2), {{schedule.whole(), 0}}});
    task_.goal = {ECH_ALLREDUCE, 0, 2, 0};
    program_ = compile(schedule, task_.goal, false);
    task_.program = &program_;
    task_.input = task_.output = value_.data();
    task_.count = task_.bytes = value_.size();
    task_.timeout = 20s;
  }

  void run(std::size_t segment) {
    task_.segment = segment;
    engine_->run(task_);
    EXPECT_EQ(engine_->failed(), ECH_OK) << engine_->failure();
  }

  std::array<std::byte, 4> value_{};
  SleepyGroup* group_ = nullptr;
  BusyTransport* transport_ = nullptr;
  std::unique_ptr<Engine> engine_;
  Program program_;
  Task task_;
};

TEST_F(Sleeping, IsEndedByTheGroupAloneWhereNothingElseIsAwaited) {
  for (const std::size_t segment : {value_.size(), value_.size() / 2}) {
    run(segment);
    EXPECT_EQ(group_->slept, 1) << segment;
    EXPECT_FALSE(transport_->armed) << segment;
  }
}

TEST_F(Sleeping, IsEndedByTheNetworkWhereSomethingHasNotLeft) {
  transport_->left = false;
  run(value_.size() / 2);
  EXPECT_TRUE(transport_->armed);
  EXPECT_EQ(group_->slept, 1) << "afterwards";
}

// Other hosts' ranks may need this one to connect, or to give back what they send with.
TEST_F(Sleeping, IsFollowedByALookAtTheNetworkWhenNobodyEndedIt) {
  group_->until = 2;
  run(value_.size());
  EXPECT_EQ(transport_->polled, 1);
}

// As UCX where another process does not take what was sent.
TEST_F(Sleeping, IsShortWhereTheNetworkWakesNobody) {
  transport_->left = false;
  transport_->refusals = 40;
  const auto begin = std::chrono::steady_clock::now();
  run(value_.size() / 2);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 38 * 50us) << "not after the first refusal";
  EXPECT_GE(engine_->counters().waits, 38u);
}

class SleepingLate : public Sleeping {
 protected:
  SleepingLate() : Sleeping(kSpin) {}

  // The soonest of some, for a thread without a core does nothing in time.
  Clock::duration soonest() {
    auto least = Clock::duration::max();
    program_.one_call = false;
    for (int k = 0; k < 5; ++k) {
      run(value_.size());
      least = std::min(least, group_->slept_after);
    }
    return least;
  }

  static constexpr auto kSpin = 20'000us;
};

TEST_F(SleepingLate, IsNotWhereTheLeaderWaitsForTheNetwork) {
  EXPECT_GE(soonest(), kSpin);
  program_.waits_for_network = true;
  EXPECT_LT(soonest(), kSpin / 2);
}

TEST_F(SleepingLate, IsForLeadersThatWaitForFollowers) {
  program_.waits_for_network = program_.needs_messages = true;
  program_.one_call = false;
  Clock::duration armed_after{};
  transport_->on_arm = [&] {
    armed_after = Clock::now() - group_->began;
    group_->slept = group_->until;
  };
  run(value_.size());
  EXPECT_GE(armed_after, kSpin);
}

// What another host sent before this one's ranks are ready for it.
TEST_F(Sleeping, IsFollowedByALookAtWhatTheNetworkWokeItFor) {
  program_.needs_messages = true;
  program_.one_call = false;
  transport_->early = {Fd(eventfd(1, EFD_CLOEXEC)), [&] { group_->slept = group_->until; }};
  run(value_.size());
  EXPECT_EQ(transport_->polled, 1);
  EXPECT_EQ(engine_->counters().waits, 1u) << "in vain";
}

}  // namespace
}  // namespace echelon
