// SPDX-License-Identifier: Apache-2.0
// What must happen when not everything arrives: wrong lengths, aborts, sleeping.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/conformance/transport_suite.h"

namespace echelon::test {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST_P(TransportSuite, AWrongLengthIsAnError) {
  run(2, [](TestRank& rank) {
    const std::size_t lengths[][2] = {{100, 50}, {50, 100}, {100000, 10}, {10, 100000}, {1, 0}};
    for (Tag tag = 0; tag < std::size(lengths); ++tag) {
      Bytes data(lengths[tag][rank.self()]);
      Completion completion;
      if (rank.self() == 0) rank.transport().send(1, tag, data, completion);
      if (rank.self() == 1) rank.transport().receive(0, tag, data, completion);
      ASSERT_TRUE(rank.wait(completion)) << "case " << tag;
      EXPECT_TRUE(rank.self() == 0 || completion.status == ECH_ERR_INTERNAL) << "case " << tag;
    }
  });
}

TEST_P(TransportSuite, AbortEndsEverythingPending) {
  run(2, [](TestRank& rank) {
    constexpr int kMessages = 40;
    const int other = 1 - rank.self();
    std::vector<Bytes> data(2 * kMessages, Bytes(300000, std::byte{1}));
    std::vector<Completion> pending(2 * kMessages);
    for (int i = 0; i < kMessages; ++i) {
      rank.transport().receive(other, 1000 + i, data[i], pending[i]);  // never sent
      rank.transport().send(other, i, data[kMessages + i], pending[kMessages + i]);
    }
    rank.wait([] { return false; }, milliseconds(10));
    rank.meet();
    rank.transport().abort();
    rank.transport().progress();
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(pending[i].done);
      EXPECT_EQ(pending[i].status, ECH_ERR_ABORTED);
      EXPECT_EQ(pending[i].peer, other);
      EXPECT_TRUE(pending[kMessages + i].done);
    }
    // Nothing is written once more: neither data nor completions.
    for (Completion& c : pending) c = {false, ECH_OK, -7};
    data.clear();
    rank.wait([] { return false; }, milliseconds(10));
    EXPECT_TRUE(std::all_of(pending.begin(), pending.end(),
                            [](const Completion& c) { return !c.done && c.peer == -7; }));
  });
}

TEST_P(TransportSuite, AfterAnAbortNothingStarts) {
  run(2, [](TestRank& rank) {
    rank.transport().abort();
    rank.transport().progress();
    std::byte value{1};
    for (int i = 0; i < 2; ++i) {
      Completion completion;
      if (i == 0) rank.transport().send(1 - rank.self(), 1, {&value, 1}, completion);
      if (i == 1) rank.transport().receive(1 - rank.self(), 1, {&value, 1}, completion);
      ASSERT_TRUE(rank.wait(completion));
      EXPECT_EQ(completion.status, ECH_ERR_ABORTED);
    }
  });
}

TEST_P(TransportSuite, AbortWakesASleeper) {
  run(2, [](TestRank& rank) {
    if (rank.self() == 1) return;  // else one may hear of the other's abort before its own
    std::byte value{1};
    Completion completion;
    rank.transport().receive(1 - rank.self(), 1, {&value, 1}, completion);
    while (rank.transport().progress() || !rank.transport().arm()) {
    }
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(50));
      rank.transport().abort();
    });
    const auto start = Clock::now();
    while (!completion.done) {
      rank.transport().sleep(std::chrono::seconds(10));
      rank.transport().disarm();
      while (rank.transport().progress() || !rank.transport().arm()) {
      }
    }
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
    EXPECT_EQ(completion.status, ECH_ERR_ABORTED);
    other.join();
  });
}

TEST_P(TransportSuite, AMessageWakesASleeper) {
  run(2, [](TestRank& rank) {
    std::byte value{1};
    for (int i = 0; i < 5; ++i) {
      Completion completion;
      if (rank.self() == 0) {
        usleep(20000);
        rank.transport().send(1, 1, {&value, 1}, completion);
        ASSERT_TRUE(rank.wait(completion));
        continue;
      }
      rank.transport().receive(0, 1, {&value, 1}, completion);
      const auto start = Clock::now();
      while (!completion.done) {
        while (rank.transport().progress() || !rank.transport().arm()) {
        }
        if (!completion.done) rank.transport().sleep(std::chrono::seconds(10));
        rank.transport().disarm();
      }
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
    }
  });
}

TEST_P(TransportSuite, SleepEndsAtItsLimit) {
  run(2, [](TestRank& rank) {
    const auto start = Clock::now();
    rank.wait([&] { return Clock::now() - start > milliseconds(30); }, milliseconds(30));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  });
}

}  // namespace
}  // namespace echelon::test
