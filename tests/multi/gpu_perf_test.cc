// SPDX-License-Identifier: Apache-2.0
// `echelon perf` on CUDA memory and against NCCL, on the stand-ins, and what it says without them.
#include <gtest/gtest.h>

#include "tests/support/json_lines.h"
#include "tests/unit/run/program.h"
#include "transports/cuda/kernels.h"

namespace echelon::test {
namespace {

using Words = std::vector<std::string>;
using namespace std::chrono_literals;

// With as many devices as ranks, unless `settings` says otherwise.
Result perf_on(int ranks, const Words& settings, const Words& options) {
  const std::string n = std::to_string(ranks);
  Words words = {program(), "run", "--no-tag", "-n", n};
  if (settings.empty() || !settings[0].starts_with("STANDIN_CUDA_DEVICES="))
    words.insert(words.end(), {"--env", "STANDIN_CUDA_DEVICES=" + n});
  for (const std::string& setting : settings) words.insert(words.end(), {"--env", setting});
  words.insert(words.end(), {"--", program(), "perf", "--device", "cuda"});
  words.insert(words.end(), options.begin(), options.end());
  return run_program(words, "", 100s);
}

testing::AssertionResult refused(const Result& result, const std::string& said) {
  if (result.code == 0) return testing::AssertionFailure() << "worked: " << result.out;
  if (result.err.find("echelon perf: " + said) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.err << " does not say " << said;
}

class GpuPerf : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
  }
};

TEST_F(GpuPerf, ChecksEveryCollective) {
  for (const char* collective :
       {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "barrier"}) {
    const Result r = perf_on(2, {}, {"--check", "-C", collective});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find(" ok\n"), std::string::npos) << collective << r.out;
  }
}

TEST_F(GpuPerf, MeasuresInEveryForm) {
  for (const Words& form : {Words{"-z", "1"}, Words{"-z", "0"}, Words{"--stream"}}) {
    Words options = {"-b", "1K", "-e", "1M", "-f", "32", "-n", "5", "--format", "json"};
    options.insert(options.end(), form.begin(), form.end());
    const Result r = perf_on(2, {}, options);
    ASSERT_EQ(r.code, 0) << r.err;
    const auto rows = json_lines(r.out);
    ASSERT_EQ(rows.size(), 3u) << r.out;
    for (const auto& row : rows) {
      EXPECT_GT(row["time_us"], 0);
      EXPECT_EQ(row["wrong"], 0);
      EXPECT_NE(row["plan"], "");
      EXPECT_GT(row["bound_us"], 0);
    }
  }
}

// A copy to the host and one from it take 20 ms each; a stream that was not waited for would end
// at once. Without NCCL, the data goes over the host.
TEST_F(GpuPerf, WaitsForTheStreamThatItTimes) {
  const Result r = perf_on(2, {"STANDIN_CUDA_LATENCY=0.02", "ECHELON_NCCL=/nowhere/libnccl.so"},
                           {"--stream", "-b", "1K", "-e", "1K", "-n", "3", "--format", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  ASSERT_EQ(json_lines(r.out).size(), 1u) << r.out;
  EXPECT_GT(json_lines(r.out)[0]["time_us"], 20'000);
}

// One rank copies within its device: the first copy to the host is that of the result.
TEST_F(GpuPerf, ReadsTheResultFromTheDevice) {
  const Result r =
      perf_on(1, {"STANDIN_CUDA_FAIL=cuMemcpyDtoHAsync_v2:1=700"}, {"-e", "8", "-n", "3"});
  EXPECT_TRUE(refused(r, "--device cuda: cuMemcpyDtoHAsync: ")) << r.out;
}

TEST_F(GpuPerf, TakesMemoryOfTheLibrary) {
  const Result r = perf_on(2, {}, {"--alloc", "--stream", "-e", "64K", "-f", "64", "-n", "3"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("in a stream, CUDA memory, memory of ech_alloc"), std::string::npos)
      << r.out;
}

TEST_F(GpuPerf, RanksShareGpusWhereThereAreFewer) {
  const Result r = perf_on(3, {"STANDIN_CUDA_DEVICES=2"}, {"-e", "1K", "-f", "128", "-n", "3"});
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(GpuPerf, ComparesWithNccl) {
  const Result r = perf_on(2, {},
                           {"--vs", "nccl", "-b", "1K", "-e", "1M", "-f", "32", "-n", "5", "-o",
                            "all", "--format", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const auto rows = json_lines(r.out);
  ASSERT_EQ(rows.size(), 15u) << r.out;
  for (const auto& row : rows) {
    EXPECT_EQ(row["wrong"], 0);
    ASSERT_GT(row["nccl_us"], 0);
    EXPECT_NEAR(row["time_by_nccl"], double{row["time_us"]} / double{row["nccl_us"]}, 0.01);
  }
}

TEST_F(GpuPerf, SaysWhyItCannotCompareWithNccl) {
  EXPECT_TRUE(refused(perf_on(2, {"ECHELON_NCCL=/nowhere/libnccl.so"}, {"--vs", "nccl"}),
                      "--vs nccl: /nowhere/libnccl.so: "));
  EXPECT_TRUE(refused(perf_on(2, {"STANDIN_CUDA_DEVICES=1"}, {"--vs", "nccl"}),
                      "--vs nccl: ranks 0 and 1 share a GPU, which NCCL does not allow"));
  EXPECT_TRUE(refused(perf_on(1, {"STANDIN_NCCL_FAIL=ncclAllReduce:1=3"}, {"--vs", "nccl"}),
                      "--vs nccl: rank 0: ncclAllReduce: "));
}

TEST(GpuPerfWithout, ADriverOrAGpuSaysSo) {
  EXPECT_TRUE(refused(perf_on(2, {"LD_LIBRARY_PATH=/nowhere"}, {}), "--device cuda: libcuda.so.1"));
  EXPECT_TRUE(refused(perf_on(2, {"STANDIN_CUDA_VERSION=10020"}, {}),
                      "--device cuda: libcuda.so.1 is for CUDA 10.2, 11.0 or newer is needed"));
  EXPECT_TRUE(refused(perf_on(2, {"STANDIN_CUDA_DEVICES=0"}, {}),
                      "--device cuda: cuInit: no CUDA-capable device is detected"));
}

TEST(GpuPerfWithout, KernelsSaysSo) {
  if (!kernel_image().empty()) GTEST_SKIP() << "this build has GPU kernels";
  EXPECT_TRUE(
      refused(perf_on(2, {}, {}), "--device cuda: there are no collectives on CUDA memory"));
}

}  // namespace
}  // namespace echelon::test
