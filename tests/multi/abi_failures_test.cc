// SPDX-License-Identifier: Apache-2.0
// How operations end that cannot succeed, through the C ABI: always, in bounded time, and with
// the same status from then on. Bounds have room for a busy machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// After a failure: every call fails alike and destruction returns at once.
void expect_dead(Comm comm, ech_status status) {
  const auto begin = Clock::now();
  int value = 1;
  EXPECT_TRUE(
      failed_with(ech_allreduce(&value, &value, 1, ECH_INT32, ECH_SUM, comm.get()), status));
  EXPECT_TRUE(failed_with(ech_barrier(comm.get()), status));
  ech_request* request = nullptr;
  EXPECT_TRUE(failed_with(ech_ibarrier(comm.get(), nullptr, &request), status));
  EXPECT_EQ(request, nullptr);
  ech_comm_destroy(comm.release());
  EXPECT_LT(since(begin), 5);
}

// What is complete when a call begins may still succeed, but no call that needs the others.
ech_status first_failure(ech_comm* comm) {
  ech_status status = ECH_OK;
  for (int i = 0; i < 3 && status == ECH_OK; ++i) status = ech_barrier(comm);
  return status;
}

// ---- plans -------------------------------------------------------------------------------------

TEST(ForcedPlans, AreUsedAndWork) {
  for (const char* plan : {"ring", "native", "direct", "recursive_doubling", "halving_doubling",
                           "double_tree", "ring@64KiB", "native@1MiB"}) {
    SCOPED_TRACE(plan);
    const World world;
    run_processes(3, [&](int rank) {
      ech_comm_options options = options_with(kPatience);
      options.algorithm = plan;
      Comm comm = make_comm(world, {rank, 3}, options);
      for (ech_collective collective : kWithData) {
        Trial trial(comm.get(), {collective, 40'009, ECH_FLOAT32, ECH_SUM, 1});
        ASSERT_TRUE(ok(trial.run()));
        trial.check();
      }
      ech_question question = ECH_QUESTION_INIT;
      question.count = 40'009;
      char* text = nullptr;
      ASSERT_TRUE(ok(ech_comm_explain(comm.get(), &question, ECH_TEXT, &text)));
      const std::string name(plan);
      EXPECT_NE(std::string(text).find(name.substr(0, name.find('@'))), std::string::npos) << text;
      ech_text_free(text);
      close(std::move(comm));
    });
  }
}

TEST(ForcedPlans, BadOnesAreErrorsThatListThePossible) {
  struct Bad {
    const char* plan;
    const char* listed;
  };
  for (const Bad bad : {Bad{"fastest", "recursive_doubling"}, Bad{"ring@5parsecs", "KiB"},
                        Bad{"ring/ring/ring/ring", "native"}, Bad{"native/ring", "native"}}) {
    SCOPED_TRACE(bad.plan);
    const World world;
    run_processes(2, [&](int rank) {
      ech_comm_options options = options_with(20);
      options.algorithm = bad.plan;
      const auto begin = Clock::now();
      try {
        make_comm(world, {rank, 2}, options);
        ADD_FAILURE() << "was accepted";
      } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find(bad.listed), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find(bad.plan), std::string::npos) << e.what();
      }
      EXPECT_LT(since(begin), 10);
    });
  }
}

// ---- deadlines ---------------------------------------------------------------------------------

TEST(Deadlines, OfOneCall) {
  const World world;
  run_processes(3, [&](int rank) {
    Comm comm = make_comm(world, {rank, 3});
    expect_works(comm.get());
    const auto begin = Clock::now();  // before any of them calls
    ++world.counter();
    const auto wait_for = [&](int count) {
      while (world.counter() < count) usleep(1000);
    };
    wait_for(3);
    if (rank == 2) {  // does not call, and learns it from its next operation
      wait_for(5);
      EXPECT_NE(first_failure(comm.get()), ECH_OK);
      return;
    }
    ech_call call = ECH_CALL_INIT;
    call.timeout = 0.3;
    std::vector<float> data(1000);
    ech_request* request = nullptr;
    // Who calls after the other has given up is told at once.
    ech_status status = ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM,
                                       comm.get(), &call, &request);
    if (status == ECH_OK) status = ech_wait(&request);
    EXPECT_LT(since(begin), 3);
    EXPECT_EQ(request, nullptr);
    if (rank == 0 && status == ECH_ERR_TIMEOUT) {
      EXPECT_GE(since(begin), 0.29);
      EXPECT_NE(std::string(ech_last_error()).find("allreduce"), std::string::npos);
    }
    // The first to give up tells the other, which then may see that instead.
    EXPECT_TRUE(status == ECH_ERR_TIMEOUT || status == ECH_ERR_ABORTED || status == ECH_ERR_PEER)
        << ech_status_name(status);
    expect_dead(std::move(comm), status);
    ++world.counter();
  });
}

TEST(Deadlines, OfTheCommunicator) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2}, options_with(3));
    if (rank == 1) {
      while (world.counter() < 1) usleep(1000);
      return;
    }
    const auto begin = Clock::now();
    EXPECT_TRUE(failed_with(ech_barrier(comm.get()), ECH_ERR_TIMEOUT));
    EXPECT_GE(since(begin), 2.9);
    EXPECT_LT(since(begin), 12);
    expect_dead(std::move(comm), ECH_ERR_TIMEOUT);
    ++world.counter();
  });
}

TEST(Deadlines, OfCreationNamesTheMissing) {
  const World world;
  run_processes(1, [&](int rank) {
    const auto begin = Clock::now();
    try {
      make_comm(world, {rank, 3}, options_with(0.5));
      ADD_FAILURE() << "made without the others";
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find('1'), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find('2'), std::string::npos) << e.what();
    }
    EXPECT_LT(since(begin), 5);
  });
}

// ---- abort -------------------------------------------------------------------------------------

class Abort : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plans, Abort, testing::Values("", "ring"));

TEST_P(Abort, FromAnotherThreadEndsAllRanks) {
  const World world;
  run_processes(3, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = GetParam();
    Comm comm = make_comm(world, {rank, 3}, options);
    expect_works(comm.get());
    if (rank == 2) {  // keeps the others waiting, then ends them
      usleep(300'000);
      world.counter() = 1;
      EXPECT_TRUE(ok(ech_comm_abort(comm.get())));
      EXPECT_TRUE(ok(ech_comm_abort(comm.get())));
      expect_dead(std::move(comm), ECH_ERR_ABORTED);
      return;
    }
    std::vector<double> data(100'000);
    EXPECT_TRUE(failed_with(
        ech_allreduce(data.data(), data.data(), data.size(), ECH_FLOAT64, ECH_SUM, comm.get()),
        ECH_ERR_ABORTED));
    EXPECT_EQ(world.counter(), 1) << "ended before the abort";
    expect_dead(std::move(comm), ECH_ERR_ABORTED);
  });
}

TEST_P(Abort, OfAPendingOperationHere) {
  const World world;
  run_processes(2, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = GetParam();
    Comm comm = make_comm(world, {rank, 2}, options);
    if (rank == 1) {
      while (world.counter() == 0) usleep(1000);
      EXPECT_TRUE(failed_with(first_failure(comm.get()), ECH_ERR_ABORTED));
      return;
    }
    Clock::time_point aborted;
    std::thread other([&] {
      usleep(300'000);
      aborted = Clock::now();
      ech_comm_abort(comm.get());
    });
    EXPECT_TRUE(failed_with(ech_barrier(comm.get()), ECH_ERR_ABORTED));
    other.join();
    EXPECT_LT(since(aborted), 3);
    world.counter() = 1;
    expect_dead(std::move(comm), ECH_ERR_ABORTED);
  });
}

// ---- death -------------------------------------------------------------------------------------

class Death : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plans, Death, testing::Values("", "ring"));

// One allreduce, waited for or polled.
ech_status reduce(std::vector<float>& data, ech_comm* comm, bool polling) {
  const auto begin = Clock::now();
  ech_request* request = nullptr;
  ech_status status = ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_AVG,
                                     comm, nullptr, &request);
  int done = 0;
  while (polling && done == 0 && status == ECH_OK && since(begin) < 15)
    status = ech_test(request, &done);
  if (request != nullptr && (!polling || done != 0)) status = ech_wait(&request);
  return polling && done == 0 && request != nullptr ? ECH_ERR_INTERNAL : status;  // endless
}

void die(std::vector<float>& data, ech_comm* comm) {
  for (int i = 0; i < 20; ++i) reduce(data, comm, false);
  raise(SIGKILL);
}

void survive(std::vector<float>& data, Comm comm, bool polling) {
  ech_status status = ECH_OK;
  auto begin = Clock::now();
  while (status == ECH_OK) {
    begin = Clock::now();
    status = reduce(data, comm.get(), polling);
  }
  EXPECT_TRUE(status == ECH_ERR_PEER || status == ECH_ERR_ABORTED)
      << ech_status_name(status) << ": " << ech_last_error();
  EXPECT_LT(since(begin), 6) << ech_last_error();
  expect_dead(std::move(comm), status);
}

// Rank 0 is the middle of the control connections, rank 1 is not.
void die_among_three(const char* plan, int victim, bool polling) {
  const World world;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid > 0) {
      pids.push_back(pid);
      continue;
    }
    ech_comm_options options = options_with(30);
    options.algorithm = plan;
    Comm comm = make_comm(world, {rank, 3}, options);
    std::vector<float> data(200'000);
    if (rank == victim) die(data, comm.get());
    survive(data, std::move(comm), polling);
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (int rank = 0; rank < 3; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
    EXPECT_EQ(status, rank == victim ? SIGKILL : 0) << "rank " << rank;
  }
}

TEST_P(Death, OfARankEndsTheOthers) { die_among_three(GetParam(), 1, false); }
TEST_P(Death, OfRankZeroEndsTheOthers) { die_among_three(GetParam(), 0, false); }
TEST_P(Death, IsSeenWhilePolling) { die_among_three(GetParam(), 2, true); }

}  // namespace
}  // namespace echelon::test
