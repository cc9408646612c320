// SPDX-License-Identifier: Apache-2.0
// Collectives on CUDA memory on virtual clusters, whose hosts have networks of their own, on the
// stand-ins: by NCCL alone, and by NCCL over an NVLink domain.
#include "tests/cluster/virtual_cluster.h"
#include "transports/cuda/kernels.h"

namespace echelon::test {
namespace {

class GpuClusters : public OnCluster, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
    OnCluster::SetUp();
  }

  // With results that are checked. What it prints.
  std::string expect_exact(const std::vector<std::string>& options) {
    std::vector<std::string> words = {
        program(), "run", "--emulate", GetParam(), "--no-tag", "--env", "STANDIN_CUDA_DEVICES=3"};
    words.insert(words.end(), options.begin(), options.end());
    const Result r = run_program(words, "", std::chrono::seconds(60));
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    return r.out;
  }
  static std::vector<std::string> perf(const std::vector<std::string>& options) {
    std::vector<std::string> words = {"--", program(), "perf", "--device", "cuda", "-b", "1K",
                                      "-e", "64K",     "-f",   "8",        "-n",   "3"};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, GpuClusters, testing::Values("2x2:1gbit", "3+1+2:1gbit"));

TEST_P(GpuClusters, AreExactByNcclAlone) {
  for (const char* collective : {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce"})
    expect_exact(perf({"--algorithm", "native", "-C", collective}));
}

TEST_P(GpuClusters, AreExactInADomain) {
  std::vector<std::string> words = perf({"--plans"});
  words.insert(words.begin(), {"--env", "STANDIN_NVML_FABRIC=7:2:3"});
  EXPECT_NE(expect_exact(words).find("domain"), std::string::npos);
}

}  // namespace
}  // namespace echelon::test
