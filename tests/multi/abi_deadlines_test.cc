// SPDX-License-Identifier: Apache-2.0
// When calls end whose other ranks come late or never.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleep_for(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6)); }

void wait_for(std::atomic<int>& counter, int value) {
  while (counter < value) usleep(1000);
}

// Rank 1 never joins. Rank 0 computes, and looks after its operation ten times a second.
TEST(Deadlines, AreKeptByTestingAlone) {
  constexpr double kLimit = 1;
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    expect_works(comm.get());
    if (rank == 1) return wait_for(world.counter(), 1);
    std::vector<float> data(1000, 1);
    ech_call call = ECH_CALL_INIT;
    call.timeout = kLimit;
    ech_request* request = nullptr;
    const auto begin = Clock::now();
    ASSERT_TRUE(ok(ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM,
                                  comm.get(), &call, &request)));
    int done = 0;
    ech_status status = ECH_OK;
    while (done == 0 && since(begin) < 10 * kLimit) {
      usleep(100'000);
      status = ech_test(request, &done);
    }
    const double took = since(begin);
    EXPECT_TRUE(failed_with(status, ECH_ERR_TIMEOUT));
    EXPECT_GE(took, kLimit);
    EXPECT_LT(took, kLimit + 0.3 * kSlowness);
    ech_wait(&request);
    ++world.counter();
  });
}

// The clock of an operation does not wait for somebody to wait.
TEST(Deadlines, CountTheTimeBeforeTheFirstLook) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    if (rank == 1) return wait_for(world.counter(), 1);
    ech_call call = ECH_CALL_INIT;
    call.timeout = 0.5;
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(ech_ibarrier(comm.get(), &call, &request)));
    usleep(600'000);
    const auto begin = Clock::now();
    EXPECT_TRUE(failed_with(ech_wait(&request), ECH_ERR_TIMEOUT));
    EXPECT_LT(since(begin), 0.4 * kSlowness);
    ++world.counter();
  });
}

// A call of several parts has one deadline for all of them. Rank 1 holds up the first part for most
// of it, and then the second for good.
constexpr double kTimeout = 2;
constexpr double kFirstPart = 0.7 * kTimeout;

void expect_took_the_timeout(Clock::time_point begin) {
  EXPECT_GE(since(begin), 0.99 * kTimeout);
  EXPECT_LT(since(begin), kTimeout + 0.9 * kSlowness) << "each part had a timeout of its own";
}

// Rank 0 has an operation pending, in which rank 1 comes late, and makes `call`, which it does not.
void expect_one_deadline(const std::function<ech_status(Comm)>& call) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2}, options_with(kTimeout));
    expect_works(comm.get());
    ech_call settings = ECH_CALL_INIT;
    settings.timeout = kPatience;
    ech_request* request = nullptr;
    const auto begin = Clock::now();
    if (rank == 1) sleep_for(kFirstPart);
    ASSERT_TRUE(ok(ech_ibarrier(comm.get(), &settings, &request)));
    if (rank == 1) {
      EXPECT_TRUE(ok(ech_wait(&request)));
      return wait_for(world.counter(), 1);
    }
    EXPECT_TRUE(failed_with(call(std::move(comm)), ECH_ERR_TIMEOUT));
    expect_took_the_timeout(begin);
    ++world.counter();
  });
}

TEST(Deadlines, OfDestruction) {
  expect_one_deadline([](Comm comm) { return ech_comm_destroy(comm.release()); });
}

TEST(Deadlines, OfSplit) {
  expect_one_deadline([](Comm comm) {
    ech_comm* part = nullptr;
    return ech_comm_split(comm.get(), 0, 0, &part);
  });
}

// Its log callback stops rank 1 when the ranks have found each other.
TEST(Deadlines, OfCreation) {
  const World world;
  run_processes(2, [&](int rank) {
    ech_comm_options options = options_with(kTimeout);
    const ech_unique_id id = world.id(0, rank);
    options.unique_id = &id;
    options.rank = rank;
    options.size = 2;
    options.interface_name = "lo";
    options.log_level = ECH_LOG_INFO;
    options.log_context = &world.counter();
    options.log = [](ech_log_level, const char*, void*) {};
    const auto begin = Clock::now();
    if (rank == 1) {
      sleep_for(kFirstPart);
      options.log = [](ech_log_level, const char*, void* over) {
        wait_for(*static_cast<std::atomic<int>*>(over), 1);
      };
    }
    ech_comm* comm = nullptr;
    const ech_status status = ech_comm_create(&comm, &options);
    EXPECT_NE(status, ECH_OK);
    if (rank == 1) return;
    EXPECT_TRUE(failed_with(status, ECH_ERR_TIMEOUT));
    expect_took_the_timeout(begin);
    ++world.counter();
  });
}

}  // namespace
}  // namespace echelon::test
