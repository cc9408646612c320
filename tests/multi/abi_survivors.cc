// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/abi_survivors.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace echelon::test {
namespace {

constexpr unsigned kLimit = 100;       // s, then a process that hangs ends
constexpr std::size_t kCount = 5'003;  // divisible by nothing

// What rank r gives as element i: small, so that sums and products are exact in every type.
int element(int r, std::size_t i) { return 1 + static_cast<int>((i + 3 * r) % 5); }

template <typename T>
std::vector<T> input_of(int rank, std::size_t count) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>(element(rank, i));
  return data;
}

int reduced(ech_op op, int size, std::size_t i) {
  int result = element(0, i);
  for (int r = 1; r < size; ++r) {
    const int next = element(r, i);
    result = op == ECH_SUM   ? result + next
             : op == ECH_MAX ? std::max(result, next)
                             : std::min(result, next);
  }
  return result;
}

template <typename T>
void expect_elements(const std::vector<T>& got, std::size_t first, ech_op op, int size) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] != static_cast<T>(reduced(op, size, first + i))) {
      ADD_FAILURE() << "op " << op << ": element " << i << " is " << got[i] << " on " << size;
      return;
    }
}

template <typename T>
void expect_reductions(ech_comm* comm, ech_dtype dtype, ech_op op) {
  const int size = size_of(comm), rank = rank_of(comm);
  const auto mine = input_of<T>(rank, kCount * static_cast<std::size_t>(size));
  std::vector<T> all(kCount), share(kCount);
  EXPECT_TRUE(ok(ech_allreduce(mine.data(), all.data(), kCount, dtype, op, comm)));
  expect_elements(all, 0, op, size);
  EXPECT_TRUE(ok(ech_reduce_scatter(mine.data(), share.data(), kCount, dtype, op, comm)));
  expect_elements(share, kCount * static_cast<std::size_t>(rank), op, size);
  for (int root = 0; root < size; ++root) {
    std::vector<T> there(kCount);
    EXPECT_TRUE(ok(ech_reduce(mine.data(), there.data(), kCount, dtype, op, root, comm)));
    if (rank == root) expect_elements(there, 0, op, size);
  }
}

void expect_copies(ech_comm* comm) {
  const int size = size_of(comm), rank = rank_of(comm);
  const auto mine = input_of<float>(rank, kCount);
  std::vector<float> all(kCount * static_cast<std::size_t>(size)), expected;
  EXPECT_TRUE(ok(ech_allgather(mine.data(), all.data(), kCount, ECH_FLOAT32, comm)));
  for (int root = 0; root < size; ++root) {
    const auto theirs = input_of<float>(root, kCount);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
    std::vector<float> copy(kCount);
    EXPECT_TRUE(ok(ech_broadcast(mine.data(), copy.data(), kCount, ECH_FLOAT32, root, comm)));
    EXPECT_EQ(copy, theirs);
  }
  EXPECT_EQ(all, expected);
}

}  // namespace

Mask mask_of(const Ranks& ranks) {
  Mask mask = 0;
  for (int rank : ranks) mask |= Mask{1} << rank;
  return mask;
}

Ranks all_but(int size, const Ranks& dead) {
  Ranks ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::erase_if(ranks, [&](int rank) { return std::ranges::count(dead, rank) > 0; });
  return ranks;
}

void kill_self_after(std::chrono::microseconds time) {
  std::thread([time] {
    std::this_thread::sleep_for(time);
    raise(SIGKILL);
  }).detach();
}

void run_with_victims(int size, const Ranks& victims, const RankBody& body) {
  fflush(nullptr);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    pids.push_back(fork());
    ASSERT_GE(pids.back(), 0);
    if (pids.back() > 0) continue;
    alarm(kLimit);
    body(rank);
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = -1;
    waitpid(pids[rank], &status, 0);
    const bool victim = std::ranges::count(victims, rank) > 0;
    EXPECT_EQ(status, victim ? SIGKILL : 0) << "rank " << rank;
  }
}

void Meeting::of(int ranks) {
  goal_ += ranks;
  ++counter_;
  while (counter_ < goal_) usleep(200);
}

Mask checked_sum(ech_comm* comm, int id, std::size_t count) {
  std::vector<std::int64_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = (std::int64_t{1} << id) * (1 + i % 7);
  if (ech_allreduce(data.data(), data.data(), count, ECH_INT64, ECH_SUM, comm) != ECH_OK) return 0;
  for (std::size_t i = 0; i < count; ++i)
    if (data[i] != data[0] * static_cast<std::int64_t>(1 + i % 7)) {
      ADD_FAILURE() << "element " << i << " is " << data[i] << ", element 0 " << data[0];
      return 0;
    }
  return static_cast<Mask>(data[0]);
}

Comm shrink(ech_comm* failed) {
  ech_comm* survivors = nullptr;
  ech_status status = ECH_ERR_PEER;
  while (status == ECH_ERR_PEER || status == ECH_ERR_TIMEOUT)
    status = ech_comm_shrink(failed, &survivors);
  EXPECT_TRUE(ok(status));
  return Comm(survivors);
}

void expect_order(ech_comm* comm, int id, Mask mask) {
  EXPECT_EQ(size_of(comm), __builtin_popcountll(mask));
  EXPECT_EQ(rank_of(comm), __builtin_popcountll(mask & ((Mask{1} << id) - 1)));
}

void expect_all_work(ech_comm* comm) {
  for (ech_op op : {ECH_SUM, ECH_MAX, ECH_MIN}) {
    expect_reductions<float>(comm, ECH_FLOAT32, op);
    expect_reductions<std::int32_t>(comm, ECH_INT32, op);
  }
  expect_copies(comm);
  EXPECT_TRUE(ok(ech_barrier(comm)));
}

}  // namespace echelon::test
