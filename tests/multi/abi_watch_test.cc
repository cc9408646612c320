// SPDX-License-Identifier: Apache-2.0
// Ranks that die, stop, or call different things, seen through the C ABI: nobody hangs, and the
// text names the culprit and what it was doing. Bounds have room for a busy machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void expect_words(const std::vector<std::string>& words) {
  const std::string text = ech_last_error();
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << '"' << word << "\" is not in: " << text;
}

ech_status sum(ech_comm* comm, std::size_t count, ech_op op = ECH_SUM) {
  std::vector<float> data(count, 1);
  return ech_allreduce(data.data(), data.data(), count, ECH_FLOAT32, op, comm);
}

// Does as rank `odd` what `other` says, as all others a sum of 1024, after two calls that agree.
template <typename Other>
void expect_mismatch(int ranks, const char* plan, const std::vector<std::string>& words,
                     Other other) {
  const World world;
  run_processes(ranks, [&](int rank) {
    setenv("ECHELON_STALL", "0.3", 1);
    ech_comm_options options = options_with(kPatience);
    options.algorithm = plan;
    Comm comm = make_comm(world, {rank, ranks}, options);
    ASSERT_TRUE(ok(sum(comm.get(), 1024)));
    ASSERT_TRUE(ok(sum(comm.get(), 0)));
    const auto begin = Clock::now();
    ech_status status = rank == 1 ? other(comm.get()) : sum(comm.get(), 1024);
    if (status == ECH_OK) status = ech_barrier(comm.get());
    EXPECT_TRUE(failed_with(status, ECH_ERR_MISMATCH));
    EXPECT_LT(since(begin), 10);
    expect_words(words);
    expect_words({"#2"});
  });
}

class Mismatch : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plan, Mismatch, testing::Values(nullptr, "ring"), [](const auto& p) {
  return std::string(p.param == nullptr ? "shared_memory" : p.param);
});

TEST_P(Mismatch, OfCounts) {
  expect_mismatch(4, GetParam(), {"rank 1 (host", "with count 1023, 3 others with count 1024"},
                  [](ech_comm* comm) { return sum(comm, 1023); });
}

TEST_P(Mismatch, OfOps) {
  expect_mismatch(3, GetParam(), {"rank 1 (host", "with op max, 2 others with op sum"},
                  [](ech_comm* comm) { return sum(comm, 1024, ECH_MAX); });
}

TEST_P(Mismatch, OfCollectives) {
  expect_mismatch(3, GetParam(), {"rank 1 (host", "entered broadcast, 2 others allreduce"},
                  [](ech_comm* comm) {
                    std::vector<float> data(1024);
                    return ech_broadcast(data.data(), data.data(), 1024, ECH_FLOAT32, 1, comm);
                  });
}

TEST(MismatchWithoutPlan, OfACallAndTheEnd) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_STALL", "0.3", 1);
    Comm comm = make_comm(world, {rank, 3});
    const ech_status status = rank == 1 ? ech_comm_destroy(comm.release()) : sum(comm.get(), 1024);
    EXPECT_TRUE(failed_with(status, ECH_ERR_MISMATCH));
    expect_words({"call #0: rank 1 (host", "entered destroy, 2 others allreduce"});
  });
}

TEST(Checked, FindsAMismatchBeforeAnythingMoves) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_CHECK", "1", 1);
    Comm comm = make_comm(world, {rank, 3});
    expect_works(comm.get());
    const auto begin = Clock::now();
    EXPECT_TRUE(failed_with(sum(comm.get(), rank == 2 ? 8 : 7), ECH_ERR_MISMATCH));
    EXPECT_LT(since(begin), 2);
    expect_words({"rank 2 on ", "with count 8, 2 others with count 7"});
  });
}

// ---- death and silence -----------------------------------------------------------------------

TEST(Death, IsToldWithWhatTheRankWasDoing) {
  const World world;
  run_processes(4, [&](int rank) {
    Comm comm = make_comm(world, {rank, 4});
    ASSERT_TRUE(ok(sum(comm.get(), 1000)));
    ++world.counter();
    while (world.counter() < 4) usleep(1000);
    if (rank == 2) {
      std::vector<float> data(1000);
      ech_request* request = nullptr;
      ech_iallreduce(data.data(), data.data(), 1000, ECH_FLOAT32, ECH_SUM, comm.get(), nullptr,
                     &request);
      _exit(0);
    }
    const auto begin = Clock::now();
    ech_status status = ECH_OK;
    while (status == ECH_OK && since(begin) < 10) status = sum(comm.get(), 1000);
    EXPECT_TRUE(failed_with(status, ECH_ERR_PEER));
    EXPECT_LT(since(begin), 2);
    expect_words({"rank 2 (host", "last seen ", "allreduce #"});
  });
}

TEST(Silence, OfAStoppedRankIsNoticed) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_HEARTBEAT", "1.5", 1);
    Comm comm = make_comm(world, {rank, 3});
    ASSERT_TRUE(ok(sum(comm.get(), 10)));
    if (rank == 1) {
      world.counter() = getpid();
      raise(SIGSTOP);
      _exit(0);
    }
    while (world.counter() == 0) usleep(1000);
    const auto begin = Clock::now();
    EXPECT_TRUE(failed_with(sum(comm.get(), 10), ECH_ERR_TIMEOUT));
    EXPECT_LT(since(begin), 6);
    expect_words({"rank 1 (host", "stopped", "allreduce #1: "});
    if (rank == 0) kill(world.counter(), SIGCONT);
  });
}

TEST(Silence, OfRankZeroIsNoticed) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_HEARTBEAT", "1.5", 1);
    Comm comm = make_comm(world, {rank, 3});
    ASSERT_TRUE(ok(sum(comm.get(), 10)));
    if (rank == 0) {
      world.counter() = getpid();
      raise(SIGSTOP);
      _exit(0);
    }
    while (world.counter() == 0) usleep(1000);
    const int stopped = std::abs(world.counter());
    EXPECT_TRUE(failed_with(sum(comm.get(), 10), ECH_ERR_TIMEOUT));
    expect_words({"rank 0 (host", "stopped"});
    // The last to notice lets it go on, and so die: to the other that would be a death.
    if (world.counter().exchange(-stopped) < 0) kill(stopped, SIGCONT);
  });
}

void collect(ech_log_level, const char* line, void* context) {
  static_cast<std::string*>(context)->append(line).append("\n");
}

TEST(Straggler, IsNamedWhileTheOthersWait) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_STALL", "0.2", 1);
    std::string log;
    ech_comm_options options = options_with(kPatience);
    options.log = collect;
    options.log_context = &log;
    Comm comm = make_comm(world, {rank, 3}, options);
    ASSERT_TRUE(ok(sum(comm.get(), 10)));
    if (rank == 2) sleep(3);
    EXPECT_TRUE(ok(sum(comm.get(), 10)));
    const std::string wanted = "allreduce #1: waiting for rank 2 (host";
    if (rank != 2) {
      EXPECT_NE(log.find(wanted), std::string::npos) << log;
      EXPECT_NE(log.find("it is outside any call, last in allreduce #0"), std::string::npos) << log;
    }
    close(std::move(comm));
  });
}

// A deadline that passes names those who did not come.
TEST(Deadline, NamesWhoIsLate) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_STALL", "0.2", 1);
    Comm comm = make_comm(world, {rank, 3}, options_with(3));
    ASSERT_TRUE(ok(sum(comm.get(), 10)));
    if (rank == 2) {
      sleep(5);
      EXPECT_TRUE(failed_with(sum(comm.get(), 10), ECH_ERR_TIMEOUT));
    } else {
      EXPECT_TRUE(failed_with(sum(comm.get(), 10), ECH_ERR_TIMEOUT));
    }
    expect_words({"did not end within 3.0 s", "waiting for rank 2 (host"});
  });
}

}  // namespace
}  // namespace echelon::test
