// SPDX-License-Identifier: Apache-2.0
// How long a rank polls before it sleeps, and whether what comes wakes it.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "lib/engine/engine.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;
constexpr auto kSpin = 200us;

// What is received arrives so late, all at once; notes when it was first slept for, and how often
// it was looked at before. Refuses to be slept on so often for each.
class LateTransport final : public Transport {
 public:
  void send(int peer, Tag, std::span<const std::byte>, Completion& completion) override {
    completion = {true, ECH_OK, peer};
  }
  void receive(int peer, Tag, std::span<std::byte>, Completion& completion) override {
    if (awaited_.empty()) {
      began_ = Clock::now();
      slept_after.reset();
      refused_ = looks = 0;
    }
    peer_ = peer;
    awaited_.push_back(&completion);
  }
  bool progress() override {
    if (!slept_after) ++looks;
    if (awaited_.empty() || Clock::now() < began_ + late) return false;
    for (Completion* each : awaited_) *each = {true, ECH_OK, peer_};
    awaited_.clear();
    return true;
  }
  bool all_left() override { return true; }
  void abort() override {}
  Counters counters() const override { return {}; }

  Clock::duration late{};
  int refusals = 0, looks = 0;
  std::optional<Clock::duration> slept_after;

 private:
  int fd() const override { return -1; }
  bool arm() override { return ++refused_ > refusals; }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {
    if (!slept_after) slept_after = Clock::now() - began_;
    std::this_thread::sleep_until(began_ + late);
  }

  Clock::time_point began_;
  int peer_ = 0, refused_ = 0;
  std::vector<Completion*> awaited_;
};

Clock::duration median(std::vector<Clock::duration> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

class Waiting : public testing::Test {
 protected:
  Waiting() {
    auto transport = std::make_unique<LateTransport>();
    transport_ = transport.get();
    EngineParts parts;
    parts.transport = std::move(transport);
    parts.spin = kSpin;
    engine_ = std::make_unique<Engine>(std::move(parts));
    Schedule schedule(2, 0);
    schedule.copy(0, 0, 1, schedule.whole());
    task_.goal = {ECH_BROADCAST, 1, 2, 0};
    program_ = compile(schedule, task_.goal, false);
    task_.program = &program_;
    task_.timeout = 20s;
    task_.input = task_.output = data_.data();
    task_.count = task_.bytes = task_.segment = data_.size();
  }

  // When the rank slept that received something so late; nothing: it did not.
  std::optional<Clock::duration> receive(Clock::duration late) {
    transport_->late = late;
    engine_->run(task_);
    EXPECT_EQ(engine_->failed(), ECH_OK) << engine_->failure();
    return transport_->slept_after;
  }

  // The soonest of some, for a thread without a core does nothing in time.
  Clock::duration soonest() {
    auto least = Clock::duration::max();
    for (int k = 0; k < 20; ++k) least = std::min(least, receive(2ms).value_or(least));
    return least;
  }

  Clock::duration usual(Clock::duration late) {
    std::vector<Clock::duration> slept_after(21);
    for (auto& each : slept_after) each = receive(late).value_or(late);
    return median(slept_after);
  }

  LateTransport* transport_ = nullptr;
  std::vector<std::byte> data_{64 << 10};
  Program program_;
  Task task_;
  std::unique_ptr<Engine> engine_;
};

// While it lives, this thread has one core only, and shares it with one that wants it all the time
// but gives way after each `turn`.
class SharedCore {
 public:
  explicit SharedCore(Clock::duration turn) {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return;
    other_ = std::jthread([turn](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const auto until = Clock::now() + turn;
        while (Clock::now() < until) continue;
        sched_yield();
      }
    });
  }
  ~SharedCore() {
    if (other_.joinable()) sched_setaffinity(0, sizeof before_, &before_);
  }

  // Whether threads may be bound, and this kernel hands the core over to who asks for it.
  bool works() const {
    if (!other_.joinable()) return false;
    std::vector<Clock::duration> took(21);
    for (auto& each : took) {
      std::this_thread::sleep_for(1ms);
      const auto begin = Clock::now();
      for (int k = 0; k < 10; ++k) sched_yield();
      each = (Clock::now() - begin) / 10;
    }
    return median(took) > 10us;
  }

 private:
  cpu_set_t before_{};
  std::jthread other_;
};

TEST_F(Waiting, IsASleepWherePlansWaitForTheNetwork) {
  EXPECT_GE(soonest(), kSpin);
  program_.waits_for_network = true;
  receive(2ms);
  EXPECT_EQ(transport_->looks, 1);
}

TEST_F(Waiting, IsBriefWhereThatIsRefused) {
  program_.waits_for_network = true;
  transport_->refusals = 1;
  EXPECT_GE(soonest(), 10us);
  EXPECT_LT(soonest(), kSpin / 2);
}

// Two naps come first, and are not ended by what comes; then it sleeps to be woken.
TEST_F(Waiting, BeginsWithNapsWhereTheNetworkHasMoreToDo) {
  program_.waits_for_network = true;
  program_.message_time = 500us;
  task_.segment = data_.size() / 4;
  receive(2ms);  // so long takes a segment: known from here on
  EXPECT_GE(soonest(), 1ms);
  EXPECT_LT(soonest(), 2ms);
  task_.segment = data_.size() / 2;
  EXPECT_LT(soonest(), 500us) << "two segments";
}

// Links may be quicker than the plan believes: segments then end sooner than it allows for.
TEST_F(Waiting, HasNoNapsWhereSegmentsEndSoon) {
  program_.waits_for_network = true;
  program_.message_time = 500us;
  program_.segment_time = 1s;
  task_.segment = data_.size() / 4;
  EXPECT_LT(soonest(), 500us);
}

TEST_F(Waiting, NapsForAMillisecondAtMost) {
  program_.waits_for_network = true;
  program_.message_time = 1s;
  task_.segment = data_.size() / 4;
  receive(50ms);
  Clock::duration least = 50ms;
  for (int k = 0; k < 5; ++k) least = std::min(least, receive(50ms).value_or(least));
  EXPECT_GE(least, 1ms);
  EXPECT_LT(least, 20ms);
}

TEST_F(Waiting, IsNotShortenedByWhatOthersHaveOfTheCore) {
  const SharedCore shared(20us);
  if (!shared.works()) GTEST_SKIP() << "this thread cannot share its core in turns";
  EXPECT_GE(usual(20ms), kSpin * 3 / 2);
}

// They may be ranks that poll, too, and would keep each other at it.
TEST_F(Waiting, IsASleepAlthoughOthersHaveTheCore) {
  const SharedCore shared(20us);
  if (!shared.works()) GTEST_SKIP() << "this thread cannot share its core in turns";
  program_.waits_for_network = true;
  EXPECT_LT(usual(20ms), kSpin);
}

// Without a limit it would be 200 us of its own at a few us in every 2 ms.
TEST_F(Waiting, EndsWhereOthersHaveNearlyAllOfTheCore) {
  const SharedCore shared(2ms);
  if (!shared.works()) GTEST_SKIP() << "this thread cannot share its core in turns";
  Clock::duration least = 50ms;
  for (int k = 0; k < 5; ++k) least = std::min(least, receive(50ms).value_or(least));
  EXPECT_LT(least, 25ms);
}

}  // namespace
}  // namespace echelon
