// SPDX-License-Identifier: Apache-2.0
// Going on with the survivors, through the C ABI: processes that are killed at any moment of a loop
// of allreduces, whose results are checked before and after. Bounds have room for a busy machine.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/multi/abi_survivors.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPromptly = 10 * kSlowness;  // s for whatever should take well under one

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Sums and shrinks until `end` ranks are left and have summed a while. Whoever is not in `end` is
// killed meanwhile.
void sum_and_shrink(Comm comm, int id, Mask end) {
  constexpr std::size_t kCounts[] = {1, 1000, 100'000};
  for (int good = 0; good < 15;) {
    const auto begin = Clock::now();
    const Mask mask = checked_sum(comm.get(), id, kCounts[good % 3]);
    if (mask != 0) {
      expect_order(comm.get(), id, mask);
      good = mask == end ? good + 1 : (good + 1) % 3;
      continue;
    }
    Comm survivors = shrink(comm.get());
    ASSERT_NE(survivors, nullptr);
    EXPECT_LT(since(begin), kPromptly);
    comm = std::move(survivors);
    good = 0;
  }
  expect_all_work(comm.get());
  close(std::move(comm));
}

// ---- deaths ------------------------------------------------------------------------------------

struct Deaths {
  const char* plan;
  int size;
  Ranks dead;
};

class Survivors : public testing::TestWithParam<Deaths> {};
INSTANTIATE_TEST_SUITE_P(
    Deaths, Survivors,
    testing::Values(Deaths{"", 4, {0}}, Deaths{"", 4, {2}}, Deaths{"", 5, {0, 1}},
                    Deaths{"", 2, {0}}, Deaths{"", 4, {0, 1, 3}}, Deaths{"ring", 3, {0}},
                    Deaths{"ring", 4, {1, 3}}, Deaths{"recursive_doubling", 4, {3}}),
    [](const auto& p) {
      std::string name = *p.param.plan != '\0' ? p.param.plan : "shared_memory";
      for (int rank : p.param.dead) name += "_" + std::to_string(rank);
      return name + "_of_" + std::to_string(p.param.size);
    });

void die_together(const Deaths& deaths, unsigned seed) {
  const World world;
  std::mt19937 random(seed);
  const auto time = std::chrono::microseconds(random() % 20'000);
  const Mask end = mask_of(all_but(deaths.size, deaths.dead));
  run_with_victims(deaths.size, deaths.dead, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = deaths.plan;
    Comm comm = make_comm(world, {rank, deaths.size}, options);
    Meeting(world).of(deaths.size);
    const bool dies = std::ranges::count(deaths.dead, rank) > 0;
    if (dies) kill_self_after(time);
    sum_and_shrink(std::move(comm), rank, dies ? 0 : end);
  });
}

TEST_P(Survivors, GoOnAfterADeathAtAnyMoment) {
  for (unsigned seed = 0; seed < 3 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    die_together(GetParam(), seed);
  }
}

// Every new communicator loses its rank 0, as it is made or later, until one rank is left.
TEST(Shrink, AgainAndAgainUntilOneIsLeft) {
  for (unsigned seed = 0; seed < 4 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const World world;
    run_with_victims(5, {0, 1, 2, 3}, [&](int rank) {
      Comm comm = make_comm(world, {rank, 5});
      Meeting(world).of(5);
      std::mt19937 random(seed);
      std::chrono::microseconds time{};
      for (int i = 0; i <= rank; ++i) time += std::chrono::microseconds(random() % 60'000);
      if (rank < 4) kill_self_after(time);
      sum_and_shrink(std::move(comm), rank, rank < 4 ? 0 : mask_of({4}));
    });
  }
}

// Rank 3 comes late, so the others are in the middle of it: `dead` leads them or follows.
class DeathInShrink : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rank, DeathInShrink, testing::Values(0, 2));

TEST_P(DeathInShrink, CostsThatRankOnly) {
  const int dead = GetParam();
  const World world;
  run_with_victims(4, {dead}, [&](int rank) {
    Comm comm = make_comm(world, {rank, 4});
    Meeting meeting(world);
    meeting.of(4);
    if (rank == dead) kill_self_after(std::chrono::milliseconds(300));
    if (rank == 3) usleep(600'000);
    const auto begin = Clock::now();
    Comm survivors = shrink(comm.get());
    EXPECT_LT(since(begin), kPromptly);
    close(std::move(comm));
    expect_order(survivors.get(), rank, mask_of(all_but(4, {dead})));
    expect_all_work(survivors.get());
    close(std::move(survivors));
  });
}

// ---- without a death ---------------------------------------------------------------------------

// Rank 2 shrinks while the others have not noticed anything and wait for it.
TEST(Shrink, EndsWhatIsPendingOnTheOthers) {
  const World world;
  run_processes(4, [&](int rank) {
    Comm comm = make_comm(world, {rank, 4});
    expect_works(comm.get());
    Meeting meeting(world);
    meeting.of(4);
    std::vector<float> data(100'000);
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM,
                                  comm.get(), nullptr, &request)));
    meeting.of(4);  // all have started it
    if (rank != 2) {
      ech_status status = ech_wait(&request);
      for (int i = 0; i < 2 && status == ECH_OK; ++i) status = ech_barrier(comm.get());
      EXPECT_TRUE(failed_with(status, ECH_ERR_ABORTED));
      EXPECT_NE(std::string(ech_last_error()).find("rank 2 on "), std::string::npos)
          << ech_last_error();
    }
    Comm survivors = shrink(comm.get());
    if (request != nullptr) ech_wait(&request);  // ended in one way or the other
    close(std::move(comm));
    expect_order(survivors.get(), rank, mask_of({0, 1, 2, 3}));
    expect_works(survivors.get());
    close(std::move(survivors));
  });
}

// A second of processor time, of which a rank may get a hundredth beside other work.
constexpr std::chrono::seconds kManyShrinks{110};

// What the process holds of the system.
struct Holdings {
  std::size_t descriptors, threads, mappings;
};

Holdings holdings() {
  const auto entries = [](const char* folder) {
    const std::filesystem::directory_iterator list(folder);
    return static_cast<std::size_t>(std::distance(begin(list), end(list)));
  };
  std::ifstream maps("/proc/self/maps");
  using Text = std::istreambuf_iterator<char>;
  return {entries("/proc/self/fd"), entries("/proc/self/task"),
          static_cast<std::size_t>(std::count(Text(maps), Text(), '\n'))};
}

// What is leaked every time grows; what is open for a moment more or less does not.
void expect_no_growth(const std::vector<Holdings>& rounds, std::size_t Holdings::*what) {
  const auto less = [&](const Holdings& a, const Holdings& b) { return a.*what < b.*what; };
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  const auto most = std::max_element(rounds.begin() + 2, middle, less);
  const auto least = std::min_element(middle, rounds.end(), less);
  EXPECT_LE((*least).*what, (*most).*what);
}

TEST(Shrink, TwentyTimesLeaksNothing) {
  for (const char* plan : {"", "ring"}) {
    SCOPED_TRACE(plan);
    const World world;
    run_processes(
        3,
        [&](int rank) {
          ech_comm_options options = options_with(kPatience);
          options.algorithm = plan;
          Comm comm = make_comm(world, {rank, 3}, options);
          Meeting meeting(world);
          std::vector<Holdings> rounds;
          for (int i = 0; i < 20; ++i) {
            meeting.of(3);
            comm = shrink(comm.get());
            expect_works(comm.get());
            rounds.push_back(holdings());
          }
          for (auto what : {&Holdings::descriptors, &Holdings::threads, &Holdings::mappings})
            expect_no_growth(rounds, what);
          close(std::move(comm));
        },
        kManyShrinks);
  }
}

// The one that aborts goes on as well.
TEST(Shrink, AfterAnAbort) {
  const World world;
  run_processes(4, [&](int rank) {
    Comm comm = make_comm(world, {rank, 4});
    expect_works(comm.get());
    Meeting meeting(world);
    meeting.of(4);
    const ech_status aborted = rank == 1 ? ech_comm_abort(comm.get()) : ECH_OK;
    EXPECT_TRUE(ok(aborted));
    while (checked_sum(comm.get(), rank, 1000) != 0) continue;
    EXPECT_TRUE(failed_with(ech_barrier(comm.get()), ECH_ERR_ABORTED));
    Comm survivors = shrink(comm.get());
    close(std::move(comm));
    expect_order(survivors.get(), rank, mask_of({0, 1, 2, 3}));
    expect_all_work(survivors.get());
    close(std::move(survivors));
  });
}

using Microseconds = std::chrono::microseconds;

// Rank 1 gives up one communicator after the other, each a while after it has come to have it; all
// shrink it and call `body` over and over again until rank 1 gives up no more.
struct Aborts {
  int times;
  std::function<Microseconds()> when;
  std::function<ech_status(ech_comm*)> body;
};

Comm outlive(Comm comm, int rank, Aborts aborts) {
  while (comm != nullptr) {
    const std::int32_t over = rank == 1 && aborts.times <= 0;
    std::thread aborter;
    if (rank == 1 && aborts.times-- > 0)
      aborter = std::thread([whole = comm.get(), when = aborts.when()] {
        if (when.count() > 0) std::this_thread::sleep_for(when);
        ech_comm_abort(whole);
      });
    std::int32_t any = 0;
    ech_status status = ECH_OK;
    while (status == ECH_OK && any == 0) {
      const auto begin = Clock::now();
      status = aborts.body(comm.get());
      if (status == ECH_OK) status = ech_allreduce(&over, &any, 1, ECH_INT32, ECH_MAX, comm.get());
      EXPECT_LT(since(begin), kPromptly);
    }
    if (aborter.joinable()) aborter.join();
    if (status == ECH_OK) return comm;
    comm = shrink(comm.get());
  }
  return comm;
}

ech_status split_in_two(ech_comm* whole) {
  ech_comm* part = nullptr;
  const ech_status status = ech_comm_split(whole, rank_of(whole) % 2, 0, &part);
  if (part != nullptr) ech_comm_destroy(part);
  return status;
}

constexpr int kTogether = 4;  // ranks

// In a split the ranks of a part wait for each other, of whom some have heard of the failure before
// they came. The place where they would have met goes as well.
TEST(Shrink, AFailureInASplitReachesAllRanks) {
  const World world;
  const auto rank_main = [&](int rank) {
    std::minstd_rand random(7);
    Comm comm = make_comm(world, {rank, kTogether});
    Meeting(world).of(kTogether);
    const auto begin = Clock::now();
    EXPECT_TRUE(ok(split_in_two(comm.get())));
    const auto span = 1 + static_cast<unsigned>(1e6 * since(begin));
    const std::size_t open = holdings().descriptors;
    comm = outlive(std::move(comm), rank,
                   {20, [&] { return Microseconds(random() % span); }, split_in_two});
    ASSERT_NE(comm, nullptr);
    EXPECT_EQ(size_of(comm.get()), kTogether);
    EXPECT_LE(holdings().descriptors, open + 2);
    close(std::move(comm));
  };
  run_processes(kTogether, rank_main, kManyShrinks);
}

// Who has the new communicator first gives it up while others are still making it.
TEST(Shrink, OfACommunicatorThatIsAbortedAtOnce) {
  const World world;
  const auto rank_main = [&](int rank) {
    Comm comm = make_comm(world, {rank, kTogether});
    Meeting(world).of(kTogether);
    comm = outlive(std::move(comm), rank, {12, [] { return Microseconds(0); }, ech_barrier});
    ASSERT_NE(comm, nullptr);
    EXPECT_EQ(size_of(comm.get()), kTogether);
    close(std::move(comm));
  };
  run_processes(kTogether, rank_main, kManyShrinks);
}

TEST(Shrink, OfOneRank) {
  const World world;
  run_processes(1, [&](int rank) {
    Comm comm = make_comm(world, {rank, 1});
    for (int i = 0; i < 3; ++i) {
      comm = shrink(comm.get());
      expect_works(comm.get());
    }
    close(std::move(comm));
  });
}

TEST(Shrink, OfACommunicatorThatWasShrunkIsRefused) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    Meeting(world).of(2);
    Comm survivors = shrink(comm.get());
    ech_comm* again = nullptr;
    EXPECT_TRUE(failed_with(ech_comm_shrink(comm.get(), &again), ECH_ERR_INVALID));
    EXPECT_EQ(again, nullptr);
    expect_works(survivors.get());
    close(std::move(comm));
    close(std::move(survivors));
  });
}

TEST(Shrink, SurvivorsCanBeSplitAndTheirPartsShrunk) {
  const World world;
  run_with_victims(5, {1}, [&](int rank) {
    Comm comm = make_comm(world, {rank, 5});
    Meeting meeting(world);
    expect_works(comm.get());
    meeting.of(5);
    if (rank == 1) raise(SIGKILL);
    while (checked_sum(comm.get(), rank, 1) != 0) continue;
    Comm survivors = shrink(comm.get());
    const int half = rank_of(survivors.get()) / 2;
    ech_comm* part = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(survivors.get(), half, 0, &part)));
    Comm owner(part);
    expect_works(part);
    meeting.of(4);
    Comm smaller = shrink(part);
    expect_all_work(smaller.get());
    expect_works(survivors.get());
    for (Comm* end : {&smaller, &survivors}) close(std::move(*end));
  });
}

}  // namespace
}  // namespace echelon::test
