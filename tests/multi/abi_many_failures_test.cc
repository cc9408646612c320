// SPDX-License-Identifier: Apache-2.0
// How allreduces of many buffers end that cannot succeed, through the C ABI.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/multi/abi_list.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

void expect_words(const std::vector<std::string>& words) {
  const std::string text = ech_last_error();
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << '"' << word << "\" is not in: " << text;
}

const Case kFloats{ECH_ALLREDUCE, 0, ECH_FLOAT32, ECH_SUM};

ech_status sum(ech_comm* comm, const Counts& counts, double postscale = 1) {
  std::vector<std::vector<float>> data;
  std::vector<void*> buffers;
  for (std::size_t count : counts) data.emplace_back(count, 1.0F);
  for (auto& one : data) buffers.push_back(one.data());
  return ech_allreduce_many(buffers.data(), buffers.data(), counts.data(), counts.size(),
                            ECH_FLOAT32, ECH_SUM, 1, postscale, comm);
}

// Rank 1 does what `odd` says, the others a list of {5, 7}.
template <typename Odd>
void expect_mismatch(const char* plan, const std::vector<std::string>& words, Odd odd) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_STALL", "0.3", 1);
    ech_comm_options options = options_with(kPatience);
    options.algorithm = plan;
    Comm comm = make_comm(world, {rank, 3}, options);
    ASSERT_TRUE(ok(sum(comm.get(), {5, 7})));
    ech_status status = rank == 1 ? odd(comm.get()) : sum(comm.get(), {5, 7});
    if (status == ECH_OK) status = ech_barrier(comm.get());
    EXPECT_TRUE(failed_with(status, ECH_ERR_MISMATCH));
    expect_words(words);
    expect_words({"#1", "rank 1 (host"});
  });
}

class ManyMismatch : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plan, ManyMismatch, testing::Values(nullptr, "ring"), [](const auto& p) {
  return std::string(p.param == nullptr ? "shared_memory" : p.param);
});

TEST_P(ManyMismatch, OfSums) {
  expect_mismatch(GetParam(), {"allreduce_many #1", "with count 13, 2 others with count 12"},
                  [](ech_comm* comm) {
                    return sum(comm, {6, 7});
                  });
}

TEST_P(ManyMismatch, OfNumbersOfBuffers) {
  expect_mismatch(GetParam(), {"with 3 buffers, 2 others with 2 buffers"}, [](ech_comm* comm) {
    return sum(comm, {5, 6, 1});
  });
}

TEST_P(ManyMismatch, OfTheirCounts) {
  expect_mismatch(GetParam(), {"with counts and factors "}, [](ech_comm* comm) {
    return sum(comm, {7, 5});
  });
}

TEST_P(ManyMismatch, OfFactors) {
  expect_mismatch(GetParam(), {"with counts and factors "}, [](ech_comm* comm) {
    return sum(comm, {5, 7}, 0.5);
  });
}

TEST_P(ManyMismatch, WithAnAllreduceOfOneBuffer) {
  expect_mismatch(GetParam(), {"entered allreduce, 2 others allreduce_many"}, [](ech_comm* comm) {
    std::vector<float> data(12);
    return ech_allreduce(data.data(), data.data(), 12, ECH_FLOAT32, ECH_SUM, comm);
  });
}

TEST(ManyChecked, IsFoundBeforeAnythingMoves) {
  const World world;
  run_processes(3, [&](int rank) {
    setenv("ECHELON_CHECK", "1", 1);
    Comm comm = make_comm(world, {rank, 3});
    ASSERT_TRUE(ok(sum(comm.get(), {5, 0, 7})));
    const Counts odd = {0, 5, 7}, others = {5, 0, 7};
    EXPECT_TRUE(failed_with(sum(comm.get(), rank == 2 ? odd : others), ECH_ERR_MISMATCH));
    expect_words({"rank 2 on ", "with counts and factors "});
  });
}

TEST(ManyDeadline, EndsTheOperationAndNamesIt) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    expect_works(comm.get());
    if (rank == 1) {
      while (world.counter() == 0) usleep(1000);
      return;
    }
    float a[3] = {}, b[900] = {};
    void* buffers[] = {a, b};
    const std::size_t counts[] = {3, 900};
    ech_call call = ECH_CALL_INIT;
    call.timeout = 0.3;
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(ech_iallreduce_many(buffers, buffers, counts, 2, ECH_FLOAT32, ECH_SUM, 0.5, 2,
                                       comm.get(), &call, &request)));
    EXPECT_TRUE(failed_with(ech_wait(&request), ECH_ERR_TIMEOUT));
    expect_words({"allreduce_many #1 did not end within 0.3 s"});
    EXPECT_TRUE(failed_with(sum(comm.get(), {1, 1}), ECH_ERR_TIMEOUT));
    world.counter() = 1;
  });
}

TEST(ManyAbort, EndsTheOperationOnAllRanks) {
  const World world;
  run_processes(3, [&](int rank) {
    Comm comm = make_comm(world, {rank, 3});
    expect_works(comm.get());
    if (rank == 2) {
      usleep(200'000);
      EXPECT_TRUE(ok(ech_comm_abort(comm.get())));
    }
    EXPECT_TRUE(failed_with(sum(comm.get(), {100'000, 3, 3'000'000}), ECH_ERR_ABORTED));
  });
}

// In the middle of large lists, which are packed in segments.
void die_among_three(const char* plan) {
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
    ech_status status = ECH_OK;
    for (int k = 0; status == ECH_OK; ++k) {
      if (rank == 1 && k == 10) raise(SIGKILL);
      status = sum(comm.get(), {300'000, 1, 400'000, 77});
    }
    EXPECT_TRUE(failed_with(status, ECH_ERR_PEER));
    EXPECT_TRUE(failed_with(sum(comm.get(), {1, 1}), ECH_ERR_PEER));
    expect_words({"rank 1 (host"});
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (int rank = 0; rank < 3; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
    EXPECT_EQ(status, rank == 1 ? SIGKILL : 0) << "rank " << rank;
  }
}

TEST(ManyDeath, OfARankEndsTheOthers) { die_among_three(""); }
TEST(ManyDeath, OfARankOfARingEndsTheOthers) { die_among_three("ring@1MiB"); }

// What is refused has not taken part in the sequence of calls.
TEST(ManyRefused, ChangesNothing) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    if (rank == 1) {
      void* nothing[] = {nullptr, nullptr};
      const std::size_t counts[] = {10, 20};
      EXPECT_TRUE(failed_with(
          ech_allreduce_many(nothing, nothing, counts, 2, ECH_FLOAT32, ECH_SUM, 1, 1, comm.get()),
          ECH_ERR_INVALID));
    }
    List list(comm.get(), {10, 20}, kFloats);
    ASSERT_TRUE(ok(list.run()));
    list.check();
    close(std::move(comm));
  });
}

}  // namespace
}  // namespace echelon::test
