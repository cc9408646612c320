// SPDX-License-Identifier: Apache-2.0
// More bytes, and more elements, than 32 bits count.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
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
// Another one in every call, so that what an earlier one has left is not taken for the result.
unsigned char mark(int rank, int call, std::size_t i) {
  return static_cast<unsigned char>((i + 17 * call) % 251 + rank);
}

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
  void mark_all(int rank, int call) {
    each_mark([&](std::size_t i) { data[i] = mark(rank, call, i); });
  }
  // The marks of elements [begin, end) of the whole, which lie at the start of this.
  void expect_marks(int call, std::size_t begin, std::size_t end) const {
    each_mark([&](std::size_t i) {
      if (i < begin || i >= end) return;
      EXPECT_EQ(data[i - begin], mark(1, call, i)) << i;
    });
  }
  std::size_t others_than_marks() const {
    static const std::array<unsigned char, 1 << 16> kZeros{};
    std::size_t others = 0;
    for (std::size_t i = 0; i < kCount; i += kZeros.size()) {
      const std::size_t n = std::min(kZeros.size(), kCount - i);
      if (std::memcmp(data + i, kZeros.data(), n) != 0)
        others += n - static_cast<std::size_t>(std::count(data + i, data + i + n, 0));
    }
    each_mark([&](std::size_t i) { others -= data[i] != 0; });
    return others;
  }

  unsigned char* data = nullptr;
};

class Rank {
 public:
  Rank(const World& world, int rank)
      : rank_(rank), comm_(make_comm(world, {rank, 2}, options_with(250))) {
    EXPECT_TRUE(send_.data != nullptr && recv_.data != nullptr);
  }

  void close() { test::close(std::move(comm_)); }

  void allreduce() {
    send_.mark_all(rank_, 0);
    ASSERT_TRUE(ok(ech_allreduce(send_.data, recv_.data, kCount, ECH_UINT8, ECH_MAX, comm_.get())));
    recv_.expect_marks(0, 0, kCount);
    EXPECT_EQ(recv_.others_than_marks(), 0u);
  }
  void reduce() {
    send_.mark_all(rank_, 1);
    ASSERT_TRUE(ok(ech_reduce(send_.data, recv_.data, kCount, ECH_UINT8, ECH_MAX, 0, comm_.get())));
    if (rank_ == 0) recv_.expect_marks(1, 0, kCount);
  }
  void reduce_scatter() {
    send_.mark_all(rank_, 2);
    ASSERT_TRUE(
        ok(ech_reduce_scatter(send_.data, recv_.data, kHalf, ECH_UINT8, ECH_MAX, comm_.get())));
    recv_.expect_marks(2, rank_ * kHalf, (rank_ + 1) * kHalf);
  }
  void broadcast() {
    send_.mark_all(rank_, 3);
    ASSERT_TRUE(ok(ech_broadcast(send_.data, recv_.data, kCount, ECH_UINT8, 1, comm_.get())));
    recv_.expect_marks(3, 0, kCount);
  }
  void allgather() {
    send_.mark_all(1, 4);
    ASSERT_TRUE(
        ok(ech_allgather(send_.data + rank_ * kHalf, recv_.data, kHalf, ECH_UINT8, comm_.get())));
    recv_.expect_marks(4, 0, 2 * kHalf);
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
