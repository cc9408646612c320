// SPDX-License-Identifier: Apache-2.0
// More bytes, and more elements, than 32 bits count.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr std::size_t kCount = 4 * kGiB + 5;
constexpr double kNeeded = 20.0 * kGiB;

double available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    double kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// Nearly all zero, so that it is quick to make: a mark at every 64 MiB and around the 4 GiB.
unsigned char mark(int rank, std::size_t i) { return static_cast<unsigned char>(i % 251 + rank); }

template <typename Visit>
void each_mark(Visit visit) {
  for (std::size_t i = 7; i < kCount; i += kGiB / 16) visit(i);
  for (std::size_t i = 4 * kGiB - 5; i < kCount; ++i) visit(i);
}

struct Mapping {
  Mapping() {
    void* memory = mmap(nullptr, kCount, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) data = static_cast<unsigned char*>(memory);
  }
  ~Mapping() {
    if (data != nullptr) munmap(data, kCount);
  }
  Mapping(const Mapping&) = delete;
  void clear() { ASSERT_EQ(madvise(data, kCount, MADV_DONTNEED), 0); }

  // The marks of `rank` in elements [begin, end) of the whole, which lie at the start of this.
  void mark_all(int rank, std::size_t begin, std::size_t end) {
    each_mark([&](std::size_t i) {
      if (i >= begin && i < end) data[i - begin] = mark(rank, i);
    });
  }
  void expect_marks(int rank, std::size_t begin, std::size_t end) const {
    std::size_t others = 0;
    for (std::size_t i = 0; i < end - begin; ++i) others += data[i] != 0;
    each_mark([&](std::size_t i) {
      if (i < begin || i >= end) return;
      EXPECT_EQ(data[i - begin], mark(rank, i)) << i;
      others -= data[i - begin] != 0;
    });
    EXPECT_EQ(others, 0u);
  }

  unsigned char* data = nullptr;
};

class Rank {
 public:
  Rank(const World& world, int rank)
      : rank_(rank), comm_(make_comm(world, {rank, 2}, options_with(250))) {
    EXPECT_TRUE(send_.data != nullptr && recv_.data != nullptr);
    send_.mark_all(rank, 0, kCount);
  }

  void close() { test::close(std::move(comm_)); }

  void allreduce() {
    ASSERT_TRUE(ok(ech_allreduce(send_.data, recv_.data, kCount, ECH_UINT8, ECH_MAX, comm_.get())));
    recv_.expect_marks(1, 0, kCount);
    recv_.clear();
  }
  void reduce() {
    ASSERT_TRUE(ok(ech_reduce(send_.data, recv_.data, kCount, ECH_UINT8, ECH_MAX, 0, comm_.get())));
    if (rank_ == 0) recv_.expect_marks(1, 0, kCount);
    recv_.clear();
  }
  void reduce_scatter() {
    ASSERT_TRUE(
        ok(ech_reduce_scatter(send_.data, recv_.data, kHalf, ECH_UINT8, ECH_MAX, comm_.get())));
    recv_.expect_marks(1, rank_ * kHalf, (rank_ + 1) * kHalf);
    recv_.clear();
  }
  void broadcast() {
    ASSERT_TRUE(ok(ech_broadcast(send_.data, recv_.data, kCount, ECH_UINT8, 1, comm_.get())));
    recv_.expect_marks(1, 0, kCount);
    recv_.clear();
    send_.clear();
  }
  void allgather() {
    send_.mark_all(1, rank_ * kHalf, (rank_ + 1) * kHalf);
    ASSERT_TRUE(ok(ech_allgather(send_.data, recv_.data, kHalf, ECH_UINT8, comm_.get())));
    recv_.expect_marks(1, 0, 2 * kHalf);
  }

 private:
  static constexpr std::size_t kHalf = kCount / 2;
  const int rank_;
  Comm comm_;
  Mapping send_, recv_;
};

TEST(Large, EveryCollectiveOfMoreThan4GiB) {
  if (available_memory() < kNeeded)
    GTEST_SKIP() << "needs 20 GiB of available memory, there are "
                 << static_cast<int>(available_memory() / static_cast<double>(kGiB));
  const World world;
  run_processes(
      2,
      [&](int number) {
        Rank rank(world, number);
        rank.allreduce();
        rank.reduce();
        rank.reduce_scatter();
        rank.broadcast();
        rank.allgather();
        rank.close();
      },
      std::chrono::seconds(280));
}

}  // namespace
}  // namespace echelon::test
