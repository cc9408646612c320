// SPDX-License-Identifier: Apache-2.0
// How a rank sleeps that awaits messages of a plan which waits for the network.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <memory>
#include <vector>

#include "lib/base/fd.h"
#include "lib/engine/engine.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;

// Of what is received one part comes by each sleep, the last with the third.
class SlowTransport final : public Transport {
 public:
  static constexpr int kParts = 3;

  void send(int, Tag, std::span<const std::byte>, Completion&) override {}
  void receive(int peer, Tag, std::span<std::byte>, Completion& completion) override {
    peer_ = peer;
    awaited_ = &completion;
  }
  bool progress() override {
    ++looks;
    if (awaited_ == nullptr || heard_ == slept) return false;
    heard_ = slept;
    if (slept >= kParts) *std::exchange(awaited_, nullptr) = {true, ECH_OK, peer_};
    return true;
  }
  void abort() override {}
  Counters counters() const override { return {}; }

  int looks = 0, slept = 0;

 private:
  int fd() const override { return news_.get(); }
  bool arm() override { return true; }
  void disarm() override { ++slept; }
  void sleep(std::chrono::nanoseconds) override {}

  const Fd news_{eventfd(1, EFD_CLOEXEC)};
  int heard_ = 0, peer_ = 0;
  Completion* awaited_ = nullptr;
};

// Its calls end when the group has been looked at so often.
class WatchedGroup final : public GroupEngine {
 public:
  int lanes() const override { return 1; }
  void start(int, const GroupWork&) override {}
  bool done(int) const override { return looks_ >= kLooks; }
  bool progress() override {
    ++looks_;
    return false;
  }
  void abort() override {}
  ech_status failed() const override { return ECH_OK; }
  std::span<std::byte> board(int) override { return {}; }
  std::uint64_t bytes() const override { return 0; }

  int armed = 0;

 private:
  static constexpr int kLooks = 100;

  int fd() const override { return news_.get(); }
  bool arm() override {
    ++armed;
    return true;
  }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}

  const Fd news_{eventfd(1, EFD_CLOEXEC)};
  int looks_ = 0;
};

class AwaitingMessages : public testing::Test {
 protected:
  AwaitingMessages() {
    auto group = std::make_unique<WatchedGroup>();
    auto transport = std::make_unique<SlowTransport>();
    group_ = group.get();
    transport_ = transport.get();
    EngineParts parts;
    parts.group = std::move(group);
    parts.transport = std::move(transport);
    parts.group_ranks = Group::range(2);
    parts.spin = 10s;
    engine_ = std::make_unique<Engine>(std::move(parts));
    task_.timeout = 20s;
    task_.input = task_.output = data_.data();
    task_.count = task_.bytes = task_.segment = data_.size();
  }

  void run(const Schedule& schedule, const Goal& goal) {
    task_.goal = goal;
    Program program = compile(schedule, task_.goal, false);
    program.waits_for_network = program.needs_messages = true;
    task_.program = &program;
    engine_->run(task_);
    EXPECT_EQ(engine_->failed(), ECH_OK) << engine_->failure();
  }

  std::vector<std::byte> data_{64 << 10};
  WatchedGroup* group_ = nullptr;
  SlowTransport* transport_ = nullptr;
  Task task_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(AwaitingMessages, SleepsAgainAtOnceWhenSomethingHasCome) {
  Schedule schedule(2, 0);
  schedule.copy(0, 0, 1, schedule.whole());
  run(schedule, {ECH_BROADCAST, 1, 2, 0});
  EXPECT_EQ(transport_->slept, SlowTransport::kParts);
  EXPECT_EQ(transport_->looks, 1 + SlowTransport::kParts) << "one before, and one for each";
}

TEST_F(AwaitingMessages, IsNotWokenByTheGroup) {
  Schedule schedule(2, 0);
  schedule.copy(0, 0, 1, schedule.whole());
  run(schedule, {ECH_BROADCAST, 1, 2, 0});
  EXPECT_EQ(group_->armed, 0);
}

TEST_F(AwaitingMessages, IsWokenByTheGroupWhereThatIsAwaitedToo) {
  Schedule schedule(2, 0);
  schedule.copy(0, 0, 1, schedule.whole());
  schedule.add(GroupCall{0, GroupAction::kAllreduce, Group::range(2), {{schedule.whole(), 0}}});
  run(schedule, {ECH_BROADCAST, 1, 2, 0});
  EXPECT_GT(group_->armed, 0);
}

}  // namespace
}  // namespace echelon
