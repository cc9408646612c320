// SPDX-License-Identifier: Apache-2.0
// What was sent leaves the process also when no operation is under way any more.
#include <gtest/gtest.h>

#include <memory>

#include "lib/engine/engine.h"

namespace echelon {
namespace {

// Counts how often it may move something; nothing else is asked of it.
class CountingTransport final : public Transport {
 public:
  CountingTransport(int& calls, bool& fails) : calls_(calls), fails_(fails) {}
  void send(int, Tag, std::span<const std::byte>, Completion&) override {}
  void receive(int, Tag, std::span<std::byte>, Completion&) override {}
  bool progress() override {
    ++calls_;
    if (fails_) throw Error(ECH_ERR_SYSTEM, "the wire broke");
    return false;
  }
  void abort() override { fails_ = false; }
  Counters counters() const override { return {}; }

 private:
  int fd() const override { return -1; }
  bool arm() override { return false; }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}

  int& calls_;
  bool& fails_;
};

class Pushing : public testing::Test {
 protected:
  Pushing() {
    EngineParts parts;
    parts.transport = std::make_unique<CountingTransport>(calls_, fails_);
    engine_ = std::make_unique<Engine>(std::move(parts));
  }

  int calls_ = 0;
  bool fails_ = false;
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

}  // namespace
}  // namespace echelon
