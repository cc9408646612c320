// SPDX-License-Identifier: Apache-2.0
// NCCL from host to host, on the stand-ins: one call over all ranks, and NVLink domains of several
// hosts. Hosts are ranks with other host names.
#include <gtest/gtest.h>

#include "tests/multi/gpu_world.h"

namespace echelon::test {
namespace {

using Hosts = std::vector<int>;

constexpr const char* kToldOnly = "only the stand-in has the versions and domains that it is told";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string name_of(const testing::TestParamInfo<Hosts>& info) {
  std::string name = "On";
  for (int gpus : info.param) name += std::to_string(gpus);
  return name;
}

// ---- one call over all ranks --------------------------------------------------------------------

class JointCalls : public testing::TestWithParam<Hosts> {
 protected:
  GpuWorld world() const { return {GetParam(), false, {{"ECHELON_ALGORITHM", "native"}}}; }
};
INSTANTIATE_TEST_SUITE_P(Hosts, JointCalls,
                         testing::Values(Hosts{1, 1}, Hosts{2, 2}, Hosts{3, 1, 2}), name_of);

TEST_P(JointCalls, OfAllTypesAndOperations) { run_on_gpus(world(), all_types_and_operations); }

TEST_P(JointCalls, OfAllCounts) { run_on_gpus(world(), all_counts); }

TEST_P(JointCalls, CarryEverythingButHostMemory) {
  run_on_gpus(world(), [](GpuRank& rank) {
    run_and_check(rank, {ECH_ALLREDUCE, 500'000, ECH_FLOAT32, ECH_SUM, 0, true}, Form::kBlocking);
    EXPECT_EQ(counters_of(rank).network_bytes, 0u);
    EXPECT_GT(counters_of(rank).shared_bytes, 0u);
    EXPECT_TRUE(has(explanation(rank, 500'000), ": native\n")) << explanation(rank, 500'000);
    expect_works(rank.comm);  // by a plan that is chosen by its links
  });
}

// NCCL makes its communicator in the background meanwhile.
TEST(JointCall, MayBeNonblockingAtFirstAndInAStreamThen) {
  run_on_gpus({{2, 1}, false, {{"ECHELON_ALGORITHM", "native"}}}, [](GpuRank& rank) {
    GpuTrial first(rank, {ECH_ALLREDUCE, 50'000});
    GpuTrial second(rank, {ECH_ALLREDUCE, 1000});
    const CudaStream stream = rank.gpu.stream();
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(first.start(&request)));
    ASSERT_TRUE(ok(second.run_in(stream)));
    rank.gpu.wait(stream);
    second.check();
    ASSERT_TRUE(ok(ech_wait(&request)));
    first.check();
  });
}

TEST(JointCall, IsMadeAnewForPartsAndSurvivors) {
  run_on_gpus({{2, 2}, false, {{"ECHELON_ALGORITHM", "native"}}}, [](GpuRank& rank) {
    run_and_check(rank, {ECH_ALLREDUCE, 10}, Form::kBlocking);
    ech_comm* part = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(rank.comm, rank.rank % 2, rank.rank, &part)));
    GpuRank in_part{rank.rank / 2, 2, rank.gpu, part, rank.world};
    run_and_check(in_part, {ECH_ALLREDUCE, 10'000}, Form::kBlocking);
    EXPECT_EQ(counters_of(in_part).network_bytes, 0u);
    EXPECT_TRUE(ok(ech_comm_destroy(part)));
    ech_comm* survivors = nullptr;
    ASSERT_TRUE(ok(ech_comm_shrink(rank.comm, &survivors)));
    GpuRank after{rank.rank, 4, rank.gpu, survivors, rank.world};
    run_and_check(after, {ECH_ALLREDUCE, 10'000}, Form::kInStream);
    EXPECT_EQ(counters_of(after).network_bytes, 0u);
    EXPECT_TRUE(ok(ech_comm_destroy(survivors)));
    rank.comm = nullptr;
  });
}

// Both kinds of calls, in one stream and all under way at once.
TEST(JointCall, IsTakenForSmallBuffersBesideCallsInsideHosts) {
  const TempFolder folder("echelon-gpu-hosts");
  const std::string file = narrow_network(folder);
  run_on_gpus({{2, 1, 2}, false, {{"ECHELON_FABRIC", file.c_str()}}}, [](GpuRank& rank) {
    const std::string small = explanation(rank, 100), large = explanation(rank, 500'000);
    EXPECT_TRUE(has(small, ": native\n")) << small;
    EXPECT_TRUE(has(small, "  all ranks: ethernet ") && has(small, "(file), 10 us")) << small;
    EXPECT_TRUE(has(large, ": native/")) << large;
    EXPECT_TRUE(has(large, "  no call over all ranks: predicted ")) << large;
    const CudaStream stream = rank.gpu.stream();
    std::vector<std::unique_ptr<GpuTrial>> trials;
    for (int k = 0; k < 12; ++k) {
      const std::size_t count = k % 2 == 0 ? 100 : 200'000;
      trials.push_back(std::make_unique<GpuTrial>(rank, Case{ECH_ALLREDUCE, count}));
      ASSERT_TRUE(ok(trials.back()->run_in(stream)));
    }
    rank.gpu.wait(stream);
    for (auto& trial : trials) trial->check();
    EXPECT_GT(counters_of(rank).network_bytes, 0u);
  });
}

TEST(JointCall, IsNotTakenByItselfForAGuess) {
  run_on_gpus({{2, 2}}, [](GpuRank& rank) {
    const std::string text = explanation(rank, 100);
    EXPECT_FALSE(has(text, ": native\n")) << text;
    EXPECT_TRUE(has(text, "\n  no call over all ranks: predicted ")) << text;
    run_and_check(rank, {ECH_ALLREDUCE, 100}, Form::kBlocking);
  });
}

TEST(JointCall, IsNoneWhereNcclDiffersOrIsNotThere) {
  if (!on_standin()) GTEST_SKIP() << kToldOnly;
  const auto explained = [](const char* reason) {
    return [reason](GpuRank& rank) {
      run_and_check(rank, {ECH_ALLREDUCE, 1000}, Form::kBlocking);
      EXPECT_TRUE(has(explanation(rank, 1000), reason)) << explanation(rank, 1000);
    };
  };
  GpuWorld world{{2, 1}};
  world.of_rank_1 = {{"STANDIN_NCCL_VERSION", "22005"}};
  run_on_gpus(world, explained("has NCCL 2.23.4, rank 1 on gpuhost0"));
  world.of_rank_1 = {{"ECHELON_NCCL", "/nowhere/libnccl.so"}};
  run_on_gpus(world, explained("no call over all ranks: rank 1 on gpuhost0"));
  world.of_rank_1 = {};
  world.shared = true;
  run_on_gpus(world, explained("no call over all ranks: ranks 0 and 1 share a GPU"));
  world.shared = false;
  world.environment = {{"STANDIN_NCCL_FAIL", "ncclGetUniqueId:2=2"}};
  run_on_gpus(world, explained("no call over all ranks: NCCL gave rank 0 on gpuhost0"));
}

// ---- domains ------------------------------------------------------------------------------------

using Settings = std::vector<std::pair<const char*, const char*>>;
const Settings kDomain7 = {{"STANDIN_NVML_FABRIC", "7:2:3"}};
const Settings kDomain8 = {{"STANDIN_NVML_FABRIC", "8:2:3"}};

GpuWorld with_domains(const Hosts& hosts, const std::vector<Settings>& of_host) {
  GpuWorld world{hosts};
  world.of_host = of_host;
  return world;
}

TEST(Domains, OfAllHostsNeedNoNetwork) {
  if (!on_standin()) GTEST_SKIP() << kToldOnly;
  run_on_gpus(with_domains({2, 1, 2}, {kDomain7, kDomain7, kDomain7}), [](GpuRank& rank) {
    all_types_and_operations(rank);
    EXPECT_EQ(counters_of(rank).network_bytes, 0u);
    const std::string text = explanation(rank, 1000);
    EXPECT_TRUE(has(text, ": native") && has(text, "\n  domain: nvlink ")) << text;
    expect_works(rank.comm);
  });
}

TEST(Domains, OfSomeHostsSendOneSumOverTheNetwork) {
  if (!on_standin()) GTEST_SKIP() << kToldOnly;
  GpuWorld world = with_domains({2, 2, 1, 1}, {kDomain7, kDomain8, kDomain7, {}});
  world.environment.emplace_back("ECHELON_ALGORITHM", "native/ring");
  run_on_gpus(world, [](GpuRank& rank) {
    all_types_and_operations(rank);
    all_counts(rank);
    const std::string text = explanation(rank, 500'000);
    EXPECT_TRUE(has(text, ": native/") && has(text, "\n  domain: ")) << text;
    EXPECT_GT(counters_of(rank).network_bytes, 0u);
  });
}

TEST(Domains, AreHostsForAnNcclThatKnowsNone) {
  if (!on_standin()) GTEST_SKIP() << kToldOnly;
  GpuWorld world = with_domains({2, 2}, {kDomain7, kDomain7});
  world.environment = {{"STANDIN_NCCL_VERSION", "22005"}};
  run_on_gpus(world, [](GpuRank& rank) {
    run_and_check(rank, {ECH_ALLREDUCE, 1000}, Form::kBlocking);
    EXPECT_TRUE(has(explanation(rank, 1000), "\n  host: ")) << explanation(rank, 1000);
  });
}

}  // namespace
}  // namespace echelon::test
