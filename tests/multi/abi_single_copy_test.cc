// SPDX-License-Identifier: Apache-2.0
// When ranks read each other's memory by process_vm_readv, which this program counts.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace {
std::atomic<int> reads = 0;
}

// In the place of the C library's, for the library too.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals,
                                    const iovec* remote, unsigned long remotes,
                                    unsigned long flags) {
  ++reads;
  return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

namespace echelon::test {
namespace {

// How often the last rank reads for one broadcast, and whether all is right.
int reads_of_a_broadcast(const World& world, int rank, int ranks, const char* setting,
                         std::size_t bytes) {
  setenv("ECHELON_SINGLE_COPY", setting, 1);
  Comm comm = make_comm(world, {rank, ranks}, options_with(20));
  std::vector<unsigned char> data(bytes, rank == 0 ? 7 : 0);
  const auto broadcast = [&] {
    return ech_broadcast(data.data(), data.data(), bytes, ECH_UINT8, 0, comm.get());
  };
  EXPECT_EQ(broadcast(), ECH_OK);  // by when all have told whether they may read
  const int before = reads;
  EXPECT_EQ(broadcast(), ECH_OK);
  EXPECT_EQ(data, std::vector<unsigned char>(bytes, 7));
  return reads - before;
}

void expect_reads(int ranks, const char* setting, std::size_t bytes, bool wanted) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << setting << ", " << bytes << " bytes");
  const World world;
  run_processes(ranks, [&](int rank) {
    const int count = reads_of_a_broadcast(world, rank, ranks, setting, bytes);
    if (rank == ranks - 1) {
      EXPECT_EQ(count > 0, wanted) << count;
    }
  });
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

TEST_F(SingleCopy, IsNotForBroadcastsUnlessAskedFor) {
  expect_reads(2, "auto", 64 << 10, false);
  expect_reads(2, "auto", 1 << 20, false);
  expect_reads(2, "on", 32 << 10, false);
  expect_reads(2, "on", 64 << 10, true);
}

int reads_of_an_allgather(const World& world, int rank, const char* setting) {
  constexpr std::size_t kPart = 64 << 10;
  setenv("ECHELON_SINGLE_COPY", setting, 1);
  Comm comm = make_comm(world, {rank, 2}, options_with(20));
  const std::vector<unsigned char> mine(kPart, 7);
  std::vector<unsigned char> all(2 * kPart);
  const auto allgather = [&] {
    return ech_allgather(mine.data(), all.data(), kPart, ECH_UINT8, comm.get());
  };
  EXPECT_EQ(allgather(), ECH_OK);  // by when all have told whether they may read
  const int before = reads;
  EXPECT_EQ(allgather(), ECH_OK);
  EXPECT_EQ(all, std::vector<unsigned char>(2 * kPart, 7));
  return reads - before;
}

TEST_F(SingleCopy, IsNotForAllgathersUnlessAskedFor) {
  const World world, other;
  run_processes(2, [&](int rank) {
    EXPECT_EQ(reads_of_an_allgather(world, rank, "auto"), 0);
    EXPECT_GT(reads_of_an_allgather(other, rank, "on"), 0);
  });
}

TEST_F(SingleCopy, IsAsOneAsksForIt) {
  expect_reads(2, "off", 64 << 10, false);
  expect_reads(2, "on", 1 << 20, true);
  expect_reads(3, "on", 1 << 20, true);
}

}  // namespace
}  // namespace echelon::test
