// SPDX-License-Identifier: Apache-2.0
// When ranks read each other's memory by process_vm_readv, which this program counts.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace {
std::atomic<int> reads = 0;  // of others
std::atomic<bool> kills = false;
std::atomic<bool> refuses = false, refuses_own = false;

struct Calls {
  const char* setting;
  std::size_t bytes;
  int count = 1;
  bool allgather = false;
};
}  // namespace

// In the place of the C library's, for the library too.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals,
                                    const iovec* remote, unsigned long remotes,
                                    unsigned long flags) {
  const bool own = pid == getpid();
  reads += own ? 0 : 1;
  if (kills && !own) kill(pid, SIGKILL);
  if (own ? refuses_own : refuses) {
    errno = own ? EFAULT : EPERM;
    return -1;
  }
  return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

namespace echelon::test {
namespace {

constexpr int kTrials = 32;  // calls in which both ways of two kinds are tried

// How often this rank reads for that many broadcasts, or allgathers, all of which must be right.
int reads_of(const Calls& calls, const World& world, int rank, int ranks) {
  setenv("ECHELON_SINGLE_COPY", calls.setting, 1);
  Comm comm = make_comm(world, {rank, ranks}, options_with(20));
  std::vector<unsigned char> data(calls.bytes);
  const std::size_t part = calls.bytes / ranks;
  int before = 0;
  for (int i = 0; i <= calls.count; ++i) {
    const std::size_t own = calls.allgather ? part : rank == 0 ? calls.bytes : 0;
    data.assign(calls.bytes, 0);
    std::fill_n(data.begin() + (calls.allgather ? rank * part : 0), own, 7);
    const ech_status status =
        calls.allgather
            ? ech_allgather(data.data() + rank * part, data.data(), part, ECH_UINT8, comm.get())
            : ech_broadcast(data.data(), data.data(), data.size(), ECH_UINT8, 0, comm.get());
    EXPECT_EQ(status, ECH_OK);
    EXPECT_EQ(data, std::vector<unsigned char>(calls.bytes, 7));
    if (i == 0) before = reads;  // by when all have told whether they may read
  }
  return reads - before;
}

// Of the last rank.
void expect_reads(int ranks, const Calls& calls, bool wanted) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << calls.setting << ", " << calls.bytes
                                  << " bytes, allgather " << calls.allgather);
  const World world;
  run_processes(ranks, [&](int rank) {
    const int count = reads_of(calls, world, rank, ranks);
    if (rank == ranks - 1) {
      EXPECT_EQ(count > 0, wanted) << count;
    }
  });
}

ech_status broadcast(std::vector<unsigned char>& data, const Comm& comm) {
  return ech_broadcast(data.data(), data.data(), data.size(), ECH_UINT8, 0, comm.get());
}

// Rank 0 is killed while the others copy its memory. They say so, at once.
void lose_the_root(const World& world, int rank, const char* setting) {
  setenv("ECHELON_SINGLE_COPY", setting, 1);
  Comm comm = make_comm(world, {rank, 3}, options_with(20));
  std::vector<unsigned char> data(4 << 20);
  EXPECT_EQ(broadcast(data, comm), ECH_OK);
  kills = rank == 2;
  ech_status status = ECH_OK;
  while (status == ECH_OK) status = broadcast(data, comm);
  EXPECT_EQ(status, ECH_ERR_PEER) << ech_last_error();
  EXPECT_NE(std::string(ech_last_error()).find("rank 0 (host "), std::string::npos)
      << ech_last_error();
}

// As ranks are, who are children of one process.
bool siblings_can_read() {
  int word = 0;
  const pid_t read = fork();
  if (read == 0) {
    while (true) pause();
  }
  const pid_t reader = fork();
  if (reader == 0) {
    int got = 0;
    const iovec here{&got, sizeof got}, there{&word, sizeof word};
    _exit(process_vm_readv(read, &here, 1, &there, 1, 0) == sizeof got ? 0 : 1);
  }
  int status = -1;
  waitpid(reader, &status, 0);
  kill(read, SIGKILL);
  waitpid(read, nullptr, 0);
  return status == 0;
}

class SingleCopy : public testing::Test {
 protected:
  void SetUp() override {
    if (!siblings_can_read()) GTEST_SKIP() << "process_vm_readv of another process is refused";
  }
};

TEST_F(SingleCopy, IsAsOneAsksForIt) {
  expect_reads(2, {"off", 1 << 20, kTrials}, false);
  expect_reads(2, {"on", 32 << 10}, false);
  expect_reads(2, {"on", 64 << 10}, true);
  expect_reads(3, {"on", 1 << 20}, true);
}

TEST_F(SingleCopy, IsTriedForBroadcastsAndAllgathers) {
  for (const int ranks : {2, 4})
    for (const bool allgather : {false, true})
      expect_reads(ranks, {"auto", 256 << 10, kTrials, allgather}, true);
  expect_reads(2, {"auto", 32 << 10, kTrials}, false);
}

void expect_lost_root_is_named(const char* setting) {
  SCOPED_TRACE(setting);
  const World world;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      lose_the_root(world, rank, setting);
      fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    pids.push_back(pid);
  }
  for (int rank = 0; rank < 3; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
    EXPECT_EQ(status, rank == 0 ? SIGKILL : 0) << "rank " << rank;
  }
}

TEST_F(SingleCopy, OfARankThatDiesNamesIt) {
  expect_lost_root_is_named("on");
  expect_lost_root_is_named("auto");  // in a trial
}

// A rank that cannot be read any more once all have found that it can.
TEST_F(SingleCopy, ThatIsRefusedLaterNamesWhoseMemoryItWas) {
  const World world;
  run_processes(2, [&](int rank) {
    setenv("ECHELON_SINGLE_COPY", "on", 1);
    Comm comm = make_comm(world, {rank, 2}, options_with(20));
    std::vector<unsigned char> data(1 << 20);
    EXPECT_EQ(broadcast(data, comm), ECH_OK);
    refuses = rank == 1;
    const ech_status status = broadcast(data, comm);
    if (rank == 1) {
      EXPECT_EQ(status, ECH_ERR_SYSTEM);
      EXPECT_NE(std::string(ech_last_error()).find("the memory of rank 0 on "), std::string::npos)
          << ech_last_error();
    }
  });
}

// Memory of which no other process may have a copy goes by slots.
TEST_F(SingleCopy, IsNotOfMemoryThatCannotBeRead) {
  const World world;
  run_processes(2, [&](int rank) {
    setenv("ECHELON_SINGLE_COPY", "auto", 1);
    Comm comm = make_comm(world, {rank, 2}, options_with(20));
    std::vector<unsigned char> data(1 << 20, rank == 0 ? 7 : 0);
    refuses_own = true;
    const int before = reads;
    for (int i = 0; i < kTrials; ++i) EXPECT_EQ(broadcast(data, comm), ECH_OK);
    EXPECT_EQ(reads, before);
    EXPECT_EQ(data, std::vector<unsigned char>(1 << 20, 7));
  });
}

}  // namespace
}  // namespace echelon::test
