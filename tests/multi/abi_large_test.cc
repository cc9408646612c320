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
  unsigned char* data = nullptr;
};

TEST(Large, AllreduceOfMoreThan4GiB) {
  if (available_memory() < kNeeded)
    GTEST_SKIP() << "needs 20 GiB of available memory, there are "
                 << static_cast<int>(available_memory() / static_cast<double>(kGiB));
  const World world;
  run_processes(
      2,
      [&](int rank) {
        Comm comm = make_comm(world, {rank, 2}, options_with(250));
        const Mapping send, recv;
        ASSERT_TRUE(send.data != nullptr && recv.data != nullptr);
        each_mark([&](std::size_t i) { send.data[i] = mark(rank, i); });
        ASSERT_TRUE(
            ok(ech_allreduce(send.data, recv.data, kCount, ECH_UINT8, ECH_MAX, comm.get())));
        each_mark([&](std::size_t i) { EXPECT_EQ(recv.data[i], mark(1, i)) << i; });
        std::size_t others = 0;
        for (std::size_t i = 0; i < kCount; ++i) others += recv.data[i] != 0;
        each_mark([&](std::size_t i) { others -= recv.data[i] != 0; });
        EXPECT_EQ(others, 0u);
        close(std::move(comm));
      },
      std::chrono::seconds(280));
}

}  // namespace
}  // namespace echelon::test
