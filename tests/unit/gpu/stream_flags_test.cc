// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/stream_flags.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace echelon {
namespace {

class StreamFlagsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(cuda_driver(), nullptr) << cuda_absence();
    device_ = std::make_unique<DeviceContext>(*cuda_driver(), 0);
    flags_ = std::make_unique<StreamFlags>(*device_);
  }

  CudaResult state(const OwnedStream& stream) {
    const DeviceScope scope(*device_);
    return device_->cuda().stream_query(stream.get());
  }

  void synchronize(const OwnedStream& stream) {
    const DeviceScope scope(*device_);
    device_->check(device_->cuda().stream_synchronize(stream.get()), "cuStreamSynchronize");
  }

  std::unique_ptr<DeviceContext> device_;
  std::unique_ptr<StreamFlags> flags_;
};

TEST_F(StreamFlagsTest, AStreamGoesOnWhenItsFlagIsRaisedAndNotBefore) {
  const OwnedStream first = make_stream(*device_), second = make_stream(*device_);
  const StreamFlags::Flag of_first = flags_->hold(first.get());
  const StreamFlags::Flag of_second = flags_->hold(second.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(state(first), kCudaNotReady);
  flags_->raise(of_second);
  synchronize(second);
  EXPECT_EQ(state(first), kCudaNotReady);
  flags_->raise(of_first);
  synchronize(first);
}

TEST_F(StreamFlagsTest, WordsAreUsedAgainAndMoreAreMade) {
  const OwnedStream stream = make_stream(*device_);
  for (int round = 0; round < 3; ++round) {
    std::vector<StreamFlags::Flag> held;
    for (int i = 0; i < 200; ++i) held.push_back(flags_->hold(stream.get()));
    for (const StreamFlags::Flag& flag : held) flags_->raise(flag);
    synchronize(stream);
  }
}

}  // namespace
}  // namespace echelon
