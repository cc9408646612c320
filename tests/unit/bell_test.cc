// SPDX-License-Identifier: Apache-2.0
// What ends a sleep in shared memory, and what must not end the next one.
#include "transports/shm/bell.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <thread>

namespace echelon::shm {
namespace {

using namespace std::chrono_literals;

class BellTest : public testing::Test {
 protected:
  // Whether poll() on it would return at once.
  bool is_rung() {
    pollfd one{sleeper_.fd(), POLLIN, 0};
    return poll(&one, 1, 0) == 1;
  }

  const std::uint64_t nonce_ = random_nonce();
  BellLine line_{}, other_line_{};
  Bell sleeper_{line_, nonce_}, ringer_{other_line_, random_nonce()};
};

TEST_F(BellTest, WakesWhoSleepsOnTheDescriptorOnce) {
  sleeper_.arm(true);
  EXPECT_FALSE(is_rung());
  ringer_.ring(line_, nonce_);
  ringer_.ring(line_, nonce_);
  EXPECT_TRUE(is_rung());
  sleeper_.disarm();
  sleeper_.arm(true);
  EXPECT_FALSE(is_rung());
  sleeper_.disarm();
  ringer_.ring(line_, nonce_);
  EXPECT_FALSE(is_rung()) << "it is awake";
}

// Who rings may lose its core between taking the word and sending.
TEST_F(BellTest, ADatagramThatComesLateEndsOneSleepOnly) {
  sleeper_.arm(true);
  BellLine taken{};
  taken.sleeping = line_.sleeping.exchange(kAwake);
  sleeper_.disarm();  // woken by something else
  ringer_.ring(taken, nonce_);
  sleeper_.arm(true);
  EXPECT_TRUE(is_rung());
  sleeper_.disarm();
  sleeper_.arm(true);
  EXPECT_FALSE(is_rung());
  sleeper_.disarm();
}

TEST_F(BellTest, WakesWhoSleepsOnTheFutex) {
  sleeper_.arm(false);
  std::jthread late([&] {
    std::this_thread::sleep_for(20ms);
    ringer_.ring(line_, nonce_);
  });
  const auto began = std::chrono::steady_clock::now();
  sleeper_.sleep(20s);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  late.join();
  sleeper_.disarm();
  sleeper_.arm(true);
  EXPECT_FALSE(is_rung());
  sleeper_.disarm();
}

TEST_F(BellTest, DoesNotSleepOnTheFutexWhenRungBefore) {
  sleeper_.arm(true);
  ringer_.ring(line_, nonce_);
  const auto began = std::chrono::steady_clock::now();
  sleeper_.sleep(20s);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  sleeper_.disarm();
  sleeper_.arm(true);
  EXPECT_FALSE(is_rung());
  sleeper_.disarm();
}

TEST_F(BellTest, HearsOfEndsWhenItAwaitsThem) {
  EXPECT_FALSE(Bell::hears(line_, Flag::kData)) << "awake";
  for (const bool for_ends : {false, true}) {
    sleeper_.arm(for_ends);
    EXPECT_TRUE(Bell::hears(line_, Flag::kData));
    EXPECT_EQ(Bell::hears(line_, Flag::kEnd), for_ends);
    ringer_.ring(line_, nonce_);
    EXPECT_TRUE(is_rung());
    sleeper_.disarm();
  }
}

TEST_F(BellTest, StaysAwakeWhenThereWasNews) {
  sleeper_.arm(true);
  sleeper_.stay_awake();
  ringer_.ring(line_, nonce_);
  EXPECT_FALSE(is_rung());
}

}  // namespace
}  // namespace echelon::shm
