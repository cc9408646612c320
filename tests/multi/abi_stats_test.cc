// SPDX-License-Identifier: Apache-2.0
// Who came last, as every rank is told; and that telling each other disturbs nothing, whatever is
// under way.
#include <unistd.h>

#include <vector>

#include "echelon/echelon.hpp"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

constexpr std::size_t kCount = 16 << 10;        // elements of f32: as much as 2 operations count
constexpr int kCallsPerPeriod = 512;            // of that size
constexpr std::size_t kWholePeriod = 16 << 20;  // elements in one operation

ech::Statistics statistics_of(ech_comm* comm) {
  ech::Statistics found;
  found.latenesses.resize(static_cast<std::size_t>(size_of(comm)));
  found.numbers.latenesses = found.latenesses.data();
  EXPECT_TRUE(ok(ech_comm_stats(comm, &found.numbers)));
  return found;
}

struct Sums {
  explicit Sums(int rank, std::size_t count = kCount) : send(count, float(rank + 1)), recv(count) {}
  void expect_right(int size) const {
    for (const float x : {recv.front(), recv.back()}) EXPECT_EQ(x, float(size * (size + 1) / 2));
  }
  std::vector<float> send, recv;
};

void reduce(Sums& sums, ech_comm* comm) {
  ASSERT_TRUE(ok(ech_allreduce(sums.send.data(), sums.recv.data(), sums.send.size(), ECH_FLOAT32,
                               ECH_SUM, comm)));
}

TEST(Stats, NameTheRankThatComesLate) {
  constexpr int kRanks = 3, kLate = 1;
  constexpr int kDelay = 1000;  // us
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    Sums sums(rank);
    for (int i = 0; i <= kCallsPerPeriod; ++i) {
      if (rank == kLate) usleep(kDelay);
      reduce(sums, comm.get());
    }
    ASSERT_TRUE(ok(ech_barrier(comm.get())));
    const ech::Statistics found = statistics_of(comm.get());
    EXPECT_EQ(found.numbers.periods, 1u);
    EXPECT_EQ(found.numbers.timed, static_cast<std::uint64_t>(kCallsPerPeriod));
    EXPECT_EQ(found.numbers.slowest_rank, kLate);
    EXPECT_GT(found.numbers.lateness, 0.5e-6 * kDelay);
    ASSERT_EQ(found.latenesses.size(), static_cast<std::size_t>(kRanks));
    EXPECT_EQ(found.latenesses[kLate], found.numbers.lateness);
    for (const int punctual : {0, 2}) EXPECT_LT(found.latenesses[punctual], found.numbers.lateness);
    EXPECT_EQ(found.numbers.slowest_from, -1) << "there is no network";
    EXPECT_EQ(found.numbers.replans, 0u);
    close(std::move(comm));
  });
}

// All are told the same.
TEST(Stats, AreAlikeOnAllRanks) {
  constexpr int kRanks = 4;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    Sums sums(rank);
    for (int i = 0; i < 2 * kCallsPerPeriod + 3; ++i) reduce(sums, comm.get());
    ASSERT_TRUE(ok(ech_barrier(comm.get())));
    ech::Communicator owner(comm.release());
    const ech::Statistics found = owner.statistics();
    EXPECT_EQ(found.numbers.periods, 2u);
    EXPECT_EQ(found.throughputs, std::vector<double>{0});
    std::vector<double> all(kRanks * kRanks);
    owner.allgather(found.latenesses.data(), all.data(), kRanks);
    for (int r = 0; r < kRanks; ++r)
      for (int i = 0; i < kRanks; ++i) EXPECT_EQ(all[r * kRanks + i], found.latenesses[i]);
  });
}

// Several exchanges wait in the queue with operations between them that have no plan yet.
TEST(Stats, ExchangesDoNotHoldUpNonblockingCalls) {
  constexpr int kRanks = 3, kCalls = 6;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    std::vector<Sums> sums(kCalls, Sums(rank, kWholePeriod));
    std::vector<ech_request*> requests(kCalls);
    // Rank 0 starts all before the others come; they wait for it to say so.
    if (rank != 0)
      while (world.counter() == 0) usleep(1000);
    for (int i = 0; i < kCalls; ++i)
      ASSERT_TRUE(ok(ech_iallreduce(sums[i].send.data(), sums[i].recv.data(), kWholePeriod,
                                    ECH_FLOAT32, ECH_SUM, comm.get(), nullptr, &requests[i])));
    if (rank == 0) world.counter() = 1;
    ASSERT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    for (const Sums& s : sums) s.expect_right(kRanks);
    EXPECT_EQ(statistics_of(comm.get()).numbers.periods, static_cast<std::uint64_t>(kCalls - 1));
    close(std::move(comm));
  });
}

TEST(Stats, ExchangesEndWithTheCommunicator) {
  constexpr int kRanks = 2;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    Sums sums(rank, kWholePeriod), more(rank, kWholePeriod);
    if (rank == 0) {
      ech_request *first = nullptr, *second = nullptr;
      ASSERT_TRUE(ok(ech_iallreduce(sums.send.data(), sums.recv.data(), kWholePeriod, ECH_FLOAT32,
                                    ECH_SUM, comm.get(), nullptr, &first)));
      ASSERT_TRUE(ok(ech_iallreduce(more.send.data(), more.recv.data(), kWholePeriod, ECH_FLOAT32,
                                    ECH_SUM, comm.get(), nullptr, &second)));
      ASSERT_TRUE(ok(ech_comm_abort(comm.get())));
      EXPECT_TRUE(failed_with(ech_wait(&second), ECH_ERR_ABORTED)) << "its turn never came";
      EXPECT_TRUE(failed_with(ech_wait(&first), ECH_ERR_ABORTED));
    } else {
      while (ech_barrier(comm.get()) == ECH_OK) continue;
    }
    ech_comm* survivors = nullptr;
    ASSERT_TRUE(ok(ech_comm_shrink(comm.get(), &survivors)));
    Comm next(survivors);
    expect_works(next.get());
    close(std::move(next));
  });
}

// The parts of a split have periods of their own, and split works in the middle of one.
TEST(Stats, SplitStartsAnew) {
  constexpr int kRanks = 4;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    Sums sums(rank, kWholePeriod);
    reduce(sums, comm.get());
    ech_comm* made = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(comm.get(), rank % 2, rank, &made)));
    Comm part(made);
    expect_works(part.get());
    EXPECT_EQ(statistics_of(part.get()).numbers.periods, 0u);
    expect_works(comm.get());
    EXPECT_EQ(statistics_of(comm.get()).numbers.periods, 1u);
    close(std::move(part));
    close(std::move(comm));
  });
}

TEST(Stats, BroadcastsThatRunAheadAndTheCheckedModeGoWithThem) {
  constexpr int kRanks = 3;
  const World world;
  run_processes(kRanks, [&](int rank) {
    setenv("ECHELON_CHECK", rank >= 0 ? "1" : "0", 1);
    Comm comm = make_comm(world, {rank, kRanks});
    std::vector<float> data(4 << 20, float(rank));
    for (int i = 0; i < 20; ++i)
      ASSERT_TRUE(ok(ech_broadcast(data.data(), data.data(), data.size(), ECH_FLOAT32, i % kRanks,
                                   comm.get())));
    EXPECT_EQ(data.back(), 0);
    expect_works(comm.get());
    EXPECT_GT(statistics_of(comm.get()).numbers.periods, 2u);
    close(std::move(comm));
  });
}

}  // namespace
}  // namespace echelon::test
