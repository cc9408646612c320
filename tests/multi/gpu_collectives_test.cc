// SPDX-License-Identifier: Apache-2.0
// Every collective on the memory of GPUs, through the C ABI, on the stand-ins.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/multi/gpu_world.h"
#include "tests/support/ranks.h"
#include "transports/cuda/device.h"

namespace echelon::test {
namespace {

class GpuCollectives : public testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Hosts, GpuCollectives,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{2, 2},
                                         std::vector{3, 1, 2}),
                         [](const auto& info) {
                           std::string name = "On";
                           for (int gpus : info.param) name += std::to_string(gpus);
                           return name;
                         });

TEST_P(GpuCollectives, AllTypesAndOperations) {
  run_on_gpus({GetParam()}, all_types_and_operations);
}

TEST_P(GpuCollectives, AllCounts) { run_on_gpus({GetParam()}, all_counts); }

// In a buffer of many segments, which the ranks do not enter at once.
TEST_P(GpuCollectives, ManyAtOnceAndLarge) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    usleep(static_cast<unsigned>(rank.rank) * 10'000);
    std::vector<std::unique_ptr<GpuTrial>> trials;
    std::vector<ech_request*> requests;
    for (std::size_t k = 0; k < 12; ++k) {
      const std::size_t count = k % 4 == 3 ? 2'000'003 : 1000 * k + 1;
      const ech_collective collective = k % 3 == 2 ? ECH_BROADCAST : ECH_ALLREDUCE;
      trials.push_back(std::make_unique<GpuTrial>(
          rank, Case{collective, count, ECH_INT32, ECH_SUM, 0, k % 2 == 0}));
      ASSERT_TRUE(ok(trials.back()->start(&requests.emplace_back())));
    }
    EXPECT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    for (auto& trial : trials) trial->check();
  });
}

bool is_first_of_host(int rank, const std::vector<int>& hosts) {
  int first = 0;
  return std::ranges::any_of(
      hosts, [&](int ranks) { return std::exchange(first, first + ranks) == rank; });
}

// NCCL inside the host, messages between hosts; one of them alone where the other is not needed.
TEST_P(GpuCollectives, UseWhatTheyNeed) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    run_and_check(rank, {ECH_ALLREDUCE, 500'000, ECH_FLOAT32, ECH_SUM, 0, true}, Form::kBlocking);
    const ech_counters now = counters_of(rank);
    EXPECT_EQ(now.operations, 1u);
    EXPECT_EQ(now.bytes, 2'000'000u);
    const std::vector<int>& hosts = GetParam();
    const std::string text = explanation(rank, 500'000);
    const bool by_leaders = text.find(": leader:") != std::string::npos;
    const bool sends = hosts.size() > 1 && (!by_leaders || is_first_of_host(rank.rank, hosts));
    EXPECT_EQ(now.network_bytes > 0, sends) << text;
    if (std::ranges::min(hosts) > 1) {
      EXPECT_GT(now.shared_bytes, 0u);
    }
    EXPECT_EQ(text.find("native") != std::string::npos, std::ranges::max(hosts) > 1) << text;
  });
}

TEST(GpuWorlds, WithoutNcclGpusExchangeMessages) {
  run_on_gpus({{2}, false, {{"ECHELON_NCCL", "/nowhere/libnccl.so"}}}, [](GpuRank& rank) {
    all_counts(rank);
    EXPECT_GT(counters_of(rank).network_bytes, 0u);
    EXPECT_EQ(counters_of(rank).shared_bytes, 0u);
  });
}

TEST(GpuWorlds, RanksThatShareAGpuExchangeMessages) {
  run_on_gpus({{2}, true}, [](GpuRank& rank) {
    all_counts(rank);
    EXPECT_GT(counters_of(rank).network_bytes, 0u);
  });
}

// In a broadcast the root only sends; in 200 of them it would be far ahead of the others.
TEST(GpuWorlds, WhoOnlySendsIsFencedIn) {
  run_on_gpus({{1, 1}}, [](GpuRank& rank) {
    std::vector<std::unique_ptr<GpuTrial>> trials;
    std::vector<ech_request*> requests;
    for (int k = 0; k < 200; ++k) {
      trials.push_back(std::make_unique<GpuTrial>(rank, Case{ECH_BROADCAST, 100}));
      ASSERT_TRUE(ok(trials.back()->start(&requests.emplace_back())));
    }
    EXPECT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    for (auto& trial : trials) trial->check();
    EXPECT_EQ(counters_of(rank).operations, 200u) << "fences are not counted";
  });
}

TEST(GpuWorlds, HostAndGpuTakeTurns) {
  run_on_gpus({{2, 1}}, [](GpuRank& rank) {
    for (int k = 0; k < 20; ++k) {
      expect_works(rank.comm);
      GpuTrial trial(rank, {ECH_ALLREDUCE, 1000});
      ech_request* request = nullptr;
      ASSERT_TRUE(ok(trial.start(&request)));
      expect_works(rank.comm);
      EXPECT_TRUE(ok(ech_wait(&request)));
      trial.check();
    }
    EXPECT_TRUE(ok(ech_barrier(rank.comm)));
  });
}

// Rank 1 comes to the GPU only when host memory is done, for which rank 0 is needed.
TEST(GpuWorlds, WhoWaitsForAGpuGoesOnOnHostMemory) {
  run_on_gpus({{1, 1}}, [](GpuRank& rank) {
    for (int k = 0; k < 3; ++k) {
      Trial host(rank.comm, {ECH_ALLREDUCE, 1'000'000});
      GpuTrial gpu(rank, {ECH_ALLREDUCE, 1000});
      ech_request *on_host = nullptr, *on_gpu = nullptr;
      ASSERT_TRUE(ok(host.start(&on_host)));
      if (rank.rank == 1) {
        EXPECT_TRUE(ok(ech_wait(&on_host)));
      }
      if (k == 0) {
        ASSERT_TRUE(ok(gpu.run_in(nullptr))) << "the first, which is waited for";
      } else if (k == 1) {
        ASSERT_TRUE(ok(gpu.start(&on_gpu)));
        EXPECT_TRUE(ok(ech_wait(&on_gpu)));
      } else {
        ASSERT_TRUE(ok(gpu.run()));
      }
      if (rank.rank == 0) {
        EXPECT_TRUE(ok(ech_wait(&on_host)));
      }
      host.check();
      gpu.check();
    }
  });
}

TEST(GpuWorlds, PartsAndSurvivorsHaveTheSameGpus) {
  run_on_gpus({{2, 2}}, [](GpuRank& rank) {
    run_and_check(rank, {ECH_ALLREDUCE, 10}, Form::kBlocking);
    ech_comm* part = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(rank.comm, rank.rank % 2, rank.rank, &part)));
    GpuRank in_part{rank.rank / 2, 2, rank.gpu, part, rank.world};
    run_and_check(in_part, {ECH_ALLREDUCE, 10'000}, Form::kBlocking);
    EXPECT_TRUE(ok(ech_comm_destroy(part)));
    ech_comm* survivors = nullptr;
    ASSERT_TRUE(ok(ech_comm_shrink(rank.comm, &survivors)));
    GpuRank after{rank.rank, 4, rank.gpu, survivors, rank.world};
    run_and_check(after, {ECH_ALLREDUCE, 10'000}, Form::kInStream);
    EXPECT_TRUE(ok(ech_comm_destroy(survivors)));
    rank.comm = nullptr;
  });
}

TEST(GpuWorlds, MemoryOfAGpuIsGivenOutAndTakenBack) {
  run_on_gpus({{1}}, [](GpuRank& rank) {
    void* memory = nullptr;
    ASSERT_TRUE(ok(ech_alloc(&memory, 1000, ECH_MEMORY_CUDA)));
    const auto values = rank.gpu.download<std::uint8_t>(cuda_pointer(memory), 1000);
    EXPECT_EQ(values, std::vector<std::uint8_t>(1000, 0)) << "is zeroed";
    EXPECT_TRUE(ok(ech_allreduce(memory, memory, 250, ECH_FLOAT32, ECH_SUM, rank.comm)));
    EXPECT_TRUE(ok(ech_free(memory)));
    EXPECT_TRUE(failed_with(ech_free(memory), ECH_ERR_INVALID)) << "twice";
    EXPECT_TRUE(
        failed_with(ech_alloc(&memory, std::size_t{1} << 60, ECH_MEMORY_CUDA), ECH_ERR_NO_MEMORY));
  });
}

}  // namespace
}  // namespace echelon::test
