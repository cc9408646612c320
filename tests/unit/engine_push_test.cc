// SPDX-License-Identifier: Apache-2.0
// What was sent leaves the process also when no operation is under way any more.
#include <gtest/gtest.h>

#include <memory>

#include "lib/engine/engine.h"

namespace echelon {
namespace {

// Counts how often it may move something. What it sends is done at once, and leaves later.
class CountingTransport final : public Transport {
 public:
  CountingTransport(int& calls, bool& fails, int& leaves_at)
      : calls_(calls), fails_(fails), leaves_at_(leaves_at) {}
  void send(int peer, Tag, std::span<const std::byte>, Completion& completion) override {
    completion = {true, ECH_OK, peer};
  }
  void receive(int, Tag, std::span<std::byte>, Completion&) override {}
  bool progress() override {
    ++calls_;
    if (fails_) throw Error(ECH_ERR_SYSTEM, "the wire broke");
    return false;
  }
  bool all_left() override { return calls_ >= leaves_at_; }
  void abort() override { fails_ = false; }
  Counters counters() const override { return {}; }

 private:
  int fd() const override { return -1; }
  bool arm() override { return true; }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}

  int& calls_;
  bool& fails_;
  int& leaves_at_;
};

class Pushing : public testing::Test {
 protected:
  Pushing() {
    EngineParts parts;
    parts.transport = std::make_unique<CountingTransport>(calls_, fails_, leaves_at_);
    engine_ = std::make_unique<Engine>(std::move(parts));
    Schedule schedule(1, 0);
    schedule.copy(0, 0, 1, schedule.whole());
    task_.goal = {ECH_BROADCAST, 0, 2, 0};
    program_ = compile(schedule, task_.goal, false);
    task_.program = &program_;
    task_.input = task_.output = &data_;
    task_.count = task_.bytes = task_.segment = 1;
    task_.timeout = std::chrono::seconds(20);
  }

  int calls_ = 0;
  bool fails_ = false;
  int leaves_at_ = 0;  // calls
  std::byte data_{};
  Program program_;
  Task task_;  // sends `data_`
  std::unique_ptr<Engine> engine_;
};

TEST_F(Pushing, MovesWhatIdleEnginesHaveSent) {
  engine_->progress();
  EXPECT_EQ(calls_, 0) << "nothing is under way";
  engine_->push();
  engine_->push();
  EXPECT_EQ(calls_, 2);
}

TEST_F(Pushing, AFailureEndsTheEngine) {
  fails_ = true;
  engine_->push();
  EXPECT_EQ(engine_->failed(), ECH_ERR_SYSTEM) << engine_->failure();
  const int calls = calls_;
  engine_->push();
  EXPECT_EQ(calls_, calls) << "what has failed is left alone";
}

TEST_F(Pushing, AnOperationEndsWhenAllHasLeft) {
  leaves_at_ = 5;
  engine_->run(task_);
  EXPECT_EQ(calls_, 5);
  leaves_at_ = 8;
  Operation* const operation = engine_->start(task_);
  int tests = 1;
  while (!engine_->test(*operation)) ++tests;
  EXPECT_EQ(calls_, 8);
  EXPECT_EQ(tests, 3);
  leaves_at_ = 10;
  engine_->drain(Clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(calls_, 10);
  engine_->release(operation);
}

TEST_F(Pushing, WhatDoesNotLeaveIsATimeout) {
  leaves_at_ = 1 << 30;
  task_.timeout = std::chrono::milliseconds(50);
  task_.signature.collective = ECH_BROADCAST;
  Operation* const operation = engine_->start(task_);
  engine_->wait(*operation);
  EXPECT_EQ(engine_->failed(), ECH_ERR_TIMEOUT);
  EXPECT_NE(engine_->failure().find("broadcast #0 did not end within"), std::string::npos)
      << engine_->failure();
  EXPECT_EQ(operation->status(), ECH_ERR_TIMEOUT) << "the others do not have it";
  engine_->release(operation);
}

}  // namespace
}  // namespace echelon
