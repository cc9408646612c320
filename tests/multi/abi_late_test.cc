// SPDX-License-Identifier: Apache-2.0
// Ranks that come late to a shrink, or never: who is waited for, how long, and what it is told.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/multi/abi_survivors.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPromptly = 10 * kSlowness;  // s for whatever should take well under one

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void set_heartbeat(const char* seconds) { setenv("ECHELON_HEARTBEAT", seconds, 1); }

// It computes for longer than silent ranks are waited for.
TEST(LateRank, ThatComputesIsWaitedFor) {
  const World world;
  run_with_victims(4, {0}, [&](int rank) {
    set_heartbeat("1");
    Comm comm = make_comm(world, {rank, 4});
    expect_works(comm.get());
    Meeting(world).of(4);
    if (rank == 0) raise(SIGKILL);
    if (rank == 2) sleep(3);
    while (checked_sum(comm.get(), rank, 1) != 0) continue;
    Comm survivors = shrink(comm.get());
    expect_order(survivors.get(), rank, mask_of({1, 2, 3}));
    expect_works(survivors.get());
    close(std::move(survivors));
  });
}

// Rank 1 does not want to, but does not say so by destroying the communicator either.
TEST(LateRank, ThatNeverCallsIsWaitedForNoLongerThanTheTimeout) {
  constexpr double kTimeout = 4 * kSlowness;
  const World world;
  run_processes(3, [&](int rank) {
    set_heartbeat("1");
    Comm comm = make_comm(world, {rank, 3}, options_with(kTimeout));
    Meeting meeting(world);
    meeting.of(3);
    if (rank == 1) {
      meeting.of(3);
      ech_comm* none = nullptr;
      EXPECT_TRUE(failed_with(ech_comm_shrink(comm.get(), &none), ECH_ERR_ABORTED));
      return;
    }
    const auto begin = Clock::now();
    Comm survivors = shrink(comm.get());
    EXPECT_GE(since(begin), 0.9 * kTimeout);
    EXPECT_LT(since(begin), kTimeout + kPromptly);
    expect_order(survivors.get(), rank, mask_of({0, 2}));
    expect_all_work(survivors.get());
    close(std::move(survivors));
    meeting.of(3);
  });
}

// One that destroys it instead is not waited for.
TEST(LateRank, ThatHasDestroyedItsCommunicatorIsNotWaitedFor) {
  const World world;
  run_processes(3, [&](int rank) {
    Comm comm = make_comm(world, {rank, 3});
    Meeting(world).of(3);
    if (rank == 1) {
      ech_comm_abort(comm.get());
      comm.reset();
      return;
    }
    const auto begin = Clock::now();
    Comm survivors = shrink(comm.get());
    EXPECT_LT(since(begin), kPromptly);
    expect_order(survivors.get(), rank, mask_of({0, 2}));
    expect_all_work(survivors.get());
    close(std::move(survivors));
  });
}

// Rank 1 is stopped when the others shrink; when it runs again they have gone on.
TEST(LateRank, ThatIsStoppedIsLeftOutAndTold) {
  const World world;
  run_processes(4, [&](int rank) {
    set_heartbeat("1");
    Comm comm = make_comm(world, {rank, 4});
    const std::int32_t pid = getpid();
    std::int32_t pids[4];
    ASSERT_TRUE(ok(ech_allgather(&pid, pids, 1, ECH_INT32, comm.get())));
    ASSERT_TRUE(ok(ech_barrier(comm.get())));
    if (rank != 1) {
      while (world.counter() == 0) usleep(1000);
      if (rank == 0) kill(pids[1], SIGSTOP);
      while (checked_sum(comm.get(), rank, 1) != 0) continue;
      Comm survivors = shrink(comm.get());
      expect_order(survivors.get(), rank, mask_of({0, 2, 3}));
      expect_works(survivors.get());
      if (rank == 0) world.counter() = 2;
      if (rank == 0) kill(pids[1], SIGCONT);
      return close(std::move(survivors));
    }
    world.counter() = 1;
    while (world.counter() == 1) usleep(1000);
    for (int attempt = 0; attempt < 2; ++attempt) {
      ech_comm* none = nullptr;
      EXPECT_TRUE(failed_with(ech_comm_shrink(comm.get(), &none), ECH_ERR_ABORTED));
      const std::string text = ech_last_error();
      EXPECT_NE(text.find("rank 0 on "), text.npos) << text;
      EXPECT_NE(text.find("without rank 1 on "), text.npos) << text;
      EXPECT_EQ(none, nullptr);
    }
  });
}

}  // namespace
}  // namespace echelon::test
