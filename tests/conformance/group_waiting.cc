// SPDX-License-Identifier: Apache-2.0
// Time: barriers, sleeping and waking, abort.
#include <unistd.h>

#include <random>
#include <thread>

#include "tests/conformance/group_data.h"
#include "tests/conformance/group_suite.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_P(GroupSuite, WorkWithoutPartsIsABarrier) {
  for (int n : {1, 2, 5})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      for (std::uint64_t turn = 1; turn <= 200; ++turn) {
        rank.board.number(rank.self) = turn;
        GroupWork work;
        work.action = static_cast<GroupAction>(turn % 3);
        rank.run(static_cast<int>(turn % 2), work);
        for (int m = 0; m < rank.size; ++m) EXPECT_GE(rank.board.number(m), turn);
      }
    });
}

// Random pauses make members wait for each other at every point; each wake must come.
TEST_P(GroupSuite, NoWakeIsLost) {
  run_group(GetParam(), 4, [&](GroupRank& rank) {
    std::mt19937 random(rank.self);
    for (int i = 0; i < 600 / kSlowness; ++i) {
      if (random() % 3 == 0) usleep(random() % 300);
      const GroupAction action = static_cast<GroupAction>(i % 3);
      const std::size_t count = i % 7 == 0 ? 50000 : 10;
      const std::vector<GroupPart> one_owner = {{0, 0, count * 4, i % rank.size}};
      const bool even = i % 5 < 3;
      Trial trial({action, ECH_INT32, ECH_SUM, false,
                   even ? even_parts(rank.size, count, ECH_INT32) : one_owner},
                  rank);
      rank.start(0, trial.work());
      if (random() % 3 == 0) usleep(random() % 300);
      rank.wait(0);
      trial.expect_correct();
    }
    EXPECT_LT(rank.longest_sleep, kSleepLimit / 2) << "a sleep ran into its limit";
  });
}

TEST_P(GroupSuite, ArmRefusesWhenThereIsNews) {
  run_group(GetParam(), 2, [&](GroupRank& rank) {
    const GroupWork barrier;
    rank.run(0, barrier);  // what a first call may have to make is there
    rank.board.barrier(2);
    if (rank.self == 0) rank.start(0, barrier);
    rank.board.barrier(2);
    if (rank.self == 1) rank.run(0, barrier);  // member 0 has news from here on
    rank.board.barrier(2);
    if (rank.self == 0) {
      EXPECT_FALSE(rank.engine.done(0) ? false : rank.engine.arm());
      rank.wait(0);
    }
    EXPECT_TRUE(rank.engine.done(0));
    while (rank.engine.progress()) continue;
    ASSERT_TRUE(rank.engine.arm()) << "nothing is under way";
    const auto begin = Clock::now();
    rank.engine.sleep(2ms);
    rank.engine.disarm();
    EXPECT_LT(Clock::now() - begin, 2s);
    rank.board.barrier(2);
  });
}

// A member whose result lies elsewhere than that of the others, as where it owns less.
TEST_P(GroupSuite, OwnersOfAReduceScatterChooseWhereTheirPartsGo) {
  constexpr std::size_t kElements = 5000, kBytes = kElements * sizeof(std::int64_t);
  run_group(GetParam(), 2, [&](GroupRank& rank) {
    const auto input = rank.made.allocate(2 * kBytes), output = rank.made.allocate(2 * kBytes);
    auto* const in = reinterpret_cast<std::int64_t*>(input.get());
    auto* const out = reinterpret_cast<std::int64_t*>(output.get());
    for (std::size_t i = 0; i < 2 * kElements; ++i) {
      in[i] = static_cast<std::int64_t>(i) + rank.self;
      out[i] = -1;
    }
    // Member 0 at the place of its part, member 1 at the beginning, where it has no room for more.
    const std::size_t second = rank.self == 0 ? kBytes : 0;
    const GroupPart parts[] = {{0, 0, kBytes, 0}, {kBytes, second, kBytes, 1}};
    rank.run(0,
             {GroupAction::kReduceScatter, ECH_INT64, ECH_SUM, input.get(), output.get(), parts});
    const std::int64_t first = rank.self == 0 ? 0 : kElements;
    for (std::size_t i = 0; i < kElements; ++i)
      ASSERT_EQ(out[i], 2 * (first + static_cast<std::int64_t>(i)) + 1) << i;
    for (std::size_t i = kElements; i < 2 * kElements; ++i) ASSERT_EQ(out[i], -1) << i;
    rank.board.barrier(2);
  });
}

TEST_P(GroupSuite, AbortEndsEverything) {
  for (std::size_t count : {4, 100000})
    run_group(GetParam(), 3, [&](GroupRank& rank) {
      const Call call{GroupAction::kAllreduce, ECH_FLOAT32, ECH_SUM, false,
                      even_parts(3, count, ECH_FLOAT32)};
      Trial first(call, rank), second(call, rank);
      if (rank.self != 0) {  // member 0 never comes
        rank.start(0, first.work());
        rank.start(1, second.work());
        for (int i = 0; i < 10; ++i) rank.engine.progress();
        EXPECT_FALSE(rank.engine.done(0));
        EXPECT_EQ(rank.engine.failed(), ECH_OK);
        rank.engine.abort();
        EXPECT_TRUE(rank.engine.done(0) && rank.engine.done(1));
        EXPECT_EQ(rank.engine.failed(), ECH_ERR_ABORTED);
        rank.engine.progress();
        rank.start(0, first.work());
        EXPECT_TRUE(rank.engine.done(0));
      }
      rank.board.barrier(3);
    });
}

TEST_P(GroupSuite, AbortWakesASleeper) {
  run_group(GetParam(), 2, [&](GroupRank& rank) {
    if (rank.self == 0) {
      rank.start(0, {});
      std::thread other([&] {
        std::this_thread::sleep_for(30ms);
        rank.engine.abort();
      });
      rank.wait(0);
      other.join();
      EXPECT_EQ(rank.engine.failed(), ECH_ERR_ABORTED);
      EXPECT_LT(rank.longest_sleep, kSleepLimit / 2);
    }
    rank.board.barrier(2);
  });
}

TEST_P(GroupSuite, CountsWhatItTakes) {
  run_group(GetParam(), 2, [&](GroupRank& rank) {
    EXPECT_EQ(rank.engine.bytes(), 0u);
    Trial trial(
        {GroupAction::kAllgather, ECH_UINT8, ECH_SUM, false, even_parts(2, 20000, ECH_UINT8)},
        rank);
    rank.run(0, trial.work());
    trial.expect_correct();
    EXPECT_EQ(rank.engine.bytes(), 10000u);
  });
}

}  // namespace
}  // namespace echelon::test
