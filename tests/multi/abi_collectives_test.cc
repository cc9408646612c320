// SPDX-License-Identifier: Apache-2.0
// Every collective, through the C ABI of the shared library, in processes of one host.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

void run_and_check(ech_comm* comm, const Case& c, bool blocking) {
  Trial trial(comm, c);
  if (blocking) {
    ASSERT_TRUE(ok(trial.run())) << describe(c);
  } else {
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(trial.start(&request))) << describe(c);
    ASSERT_TRUE(ok(ech_wait(&request))) << describe(c);
    EXPECT_EQ(request, nullptr);
  }
  trial.check();
}

class Collectives : public testing::TestWithParam<int> {
 protected:
  // `body` on every rank of a communicator of GetParam() processes.
  void on_ranks(const std::function<void(ech_comm*, std::atomic<int>& counter)>& body) {
    const World world;
    const int size = GetParam();
    run_processes(
        size,
        [&](int rank) {
          Comm comm = make_comm(world, {rank, size});
          body(comm.get(), world.counter());
          close(std::move(comm));
        },
        std::chrono::seconds(100));
  }
  void on_ranks(const std::function<void(ech_comm*)>& body) {
    on_ranks([&](ech_comm* comm, std::atomic<int>&) { body(comm); });
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, testing::Values(1, 2, 3, 5, 8));

TEST_P(Collectives, AllTypesAndOperations) {
  on_ranks([](ech_comm* comm) {
    for_types_and_operations(
        size_of(comm), [&](const Case& c, int number) { run_and_check(comm, c, number % 3 != 0); });
  });
}

TEST_P(Collectives, AllCounts) {
  on_ranks([](ech_comm* comm) {
    const int last = size_of(comm) - 1;
    for (std::size_t count : {0, 1, 2, 7, 63, 1000, 4099, 65537}) {
      for (ech_collective collective : kWithData) {
        for (bool in_place : {false, true}) {
          run_and_check(comm, {collective, count, ECH_FLOAT32, ECH_SUM, last, in_place}, true);
          run_and_check(comm, {collective, count, ECH_INT8, ECH_MAX, 0, in_place}, false);
        }
      }
    }
  });
}

// 3 ranks show it, more take long.
using LargeCollectives = Collectives;
INSTANTIATE_TEST_SUITE_P(Sizes, LargeCollectives, testing::Values(1, 2, 3));

TEST_P(LargeCollectives, LargeBuffers) {
  on_ranks([](ech_comm* comm) {
    constexpr std::size_t kLarge = 3'000'017;
    for (ech_collective collective : kWithData) {
      const bool blocks = collective == ECH_REDUCE_SCATTER || collective == ECH_ALLGATHER;
      const std::size_t count = blocks ? kLarge / size_of(comm) : kLarge;
      run_and_check(comm, {collective, count, ECH_FLOAT32, ECH_SUM, 0, false}, true);
      run_and_check(comm, {collective, count, ECH_FLOAT32, ECH_SUM, 0, true}, false);
    }
  });
}

TEST_P(Collectives, NothingAtAllNeedsNoBuffers) {
  on_ranks([](ech_comm* comm) {
    EXPECT_TRUE(ok(ech_allreduce(nullptr, nullptr, 0, ECH_INT8, ECH_SUM, comm)));
    ech_request* request = nullptr;
    EXPECT_TRUE(ok(ech_iallgather(nullptr, nullptr, 0, ECH_INT8, comm, nullptr, &request)));
    ASSERT_NE(request, nullptr);
    int done = 0;
    EXPECT_TRUE(ok(ech_test(request, &done)));
    EXPECT_EQ(done, 1);
    EXPECT_TRUE(ok(ech_wait(&request)));
  });
}

TEST_P(Collectives, BarrierWaitsForAll) {
  on_ranks([](ech_comm* comm, std::atomic<int>& arrived) {
    const int size = size_of(comm);
    for (int late = 0; late < size; ++late) {
      if (rank_of(comm) == late) usleep(20'000);
      ++arrived;
      ech_request* request = nullptr;
      ASSERT_TRUE(ok(late % 2 == 0 ? ech_barrier(comm) : ech_ibarrier(comm, nullptr, &request)));
      if (request != nullptr) {
        EXPECT_TRUE(ok(ech_wait(&request)));
      }
      EXPECT_GE(arrived, (late + 1) * size);
    }
  });
}

std::uint64_t checksum(const Buffer& buffer) {
  std::uint64_t sum = 1469598103934665603u;
  for (std::size_t i = 0; i < buffer.size(); ++i)
    sum = (sum ^ static_cast<std::uint64_t>(buffer.data()[i])) * 1099511628211u;
  return sum;
}

// Random numbers between 0.5 and 2, so that sums round: the exponent of 1 or one less.
void randomise(Buffer& buffer, ech_dtype dtype, unsigned seed) {
  std::mt19937 random(seed);
  const auto real = [&] { return 0.5 + 1.5 * static_cast<double>(random()) / 0x1p32; };
  const std::size_t w = width(dtype);
  for (std::size_t i = 0; i < buffer.size() / w; ++i) {
    const double wide = real();
    const auto single = static_cast<float>(wide);
    const auto half = static_cast<std::uint16_t>(0x3800 + random() % 0x800);   // binary16
    const auto brain = static_cast<std::uint16_t>(0x3f00 + random() % 0x100);  // bfloat16
    const void* from = dtype == ECH_FLOAT64   ? static_cast<const void*>(&wide)
                       : dtype == ECH_FLOAT32 ? static_cast<const void*>(&single)
                       : dtype == ECH_FLOAT16 ? static_cast<const void*>(&half)
                                              : static_cast<const void*>(&brain);
    std::memcpy(buffer.data() + i * w, from, w);
  }
}

void expect_alike(ech_comm* comm, ech_dtype dtype, std::size_t count, ech_op op) {
  const int size = size_of(comm);
  Buffer in(count * width(dtype)), out(count * width(dtype));
  randomise(in, dtype, rank_of(comm) * 31 + 7);
  ASSERT_TRUE(ok(ech_allreduce(in.data(), out.data(), count, dtype, op, comm)));
  const std::uint64_t mine = checksum(out);
  std::vector<std::uint64_t> all(size);
  ASSERT_TRUE(ok(ech_allgather(&mine, all.data(), 1, ECH_UINT64, comm)));
  EXPECT_EQ(all, std::vector<std::uint64_t>(size, all[0])) << dtype << " x " << count;
}

TEST_P(Collectives, RoundedSumsHaveTheSameBitsOnAllRanks) {
  on_ranks([](ech_comm* comm) {
    for (ech_dtype dtype : {ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64}) {
      for (std::size_t count : {1, 7, 1000, 65537}) {
        expect_alike(comm, dtype, count, ECH_SUM);
        expect_alike(comm, dtype, count, ECH_AVG);
      }
    }
    expect_alike(comm, ECH_FLOAT32, 1'000'003, ECH_SUM);
  });
}

// The real sum, not only the same one: against long double, within what n roundings allow.
TEST_P(Collectives, RoundedSumsAreNearTheTruth) {
  on_ranks([](ech_comm* comm) {
    constexpr std::size_t kCount = 5003;
    const int size = size_of(comm);
    std::vector<double> truth(kCount);
    for (int r = 0; r < size; ++r) {
      Buffer theirs(kCount * sizeof(float));
      randomise(theirs, ECH_FLOAT32, r);
      for (std::size_t i = 0; i < kCount; ++i)
        truth[i] += reinterpret_cast<const float*>(theirs.data())[i];
    }
    Buffer mine(kCount * sizeof(float));
    randomise(mine, ECH_FLOAT32, rank_of(comm));
    auto* data = reinterpret_cast<float*>(mine.data());
    ASSERT_TRUE(ok(ech_allreduce(data, data, kCount, ECH_FLOAT32, ECH_SUM, comm)));
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(data[i], truth[i], truth[i] * size * 0x1p-24) << "element " << i;
  });
}

}  // namespace
}  // namespace echelon::test
