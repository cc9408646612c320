// SPDX-License-Identifier: Apache-2.0
// What goes wrong with collectives on GPUs, and what is said about it, on the stand-ins.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/multi/gpu_world.h"
#include "tests/support/ranks.h"
#include "transports/cuda/device.h"

namespace echelon::test {
namespace {

using namespace std::chrono_literals;
using testing::AssertionResult;

AssertionResult says(const std::string& wanted) {
  const std::string text = ech_last_error();
  if (text.find(wanted) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not say \"" << wanted << "\"";
}

float* floats(const Gpu& gpu) { return reinterpret_cast<float*>(gpu.memory(4096)); }

ech_status sum_up(float* data, ech_comm* comm) {
  return ech_allreduce(data, data, 1000, ECH_FLOAT32, ECH_SUM, comm);
}

ech_status sum_up_in(CudaStream stream, float* data, ech_comm* comm) {
  return ech_allreduce_on_stream(data, data, 1000, ECH_FLOAT32, ECH_SUM, comm, stream);
}

// Until the communicator knows that it has failed, some time after it has.
ech_status failure_of(ech_comm* comm) {
  for (int i = 0; i < 1000 * kSlowness; ++i) {
    const ech_status status = ech_comm_status(comm);
    if (status != ECH_OK) return status;
    std::this_thread::sleep_for(10ms);
  }
  return ECH_OK;
}

TEST(GpuErrors, BuffersOfTwoKindsAreRefused) {
  run_on_gpus({{1}}, [](GpuRank& rank) {
    float host[1000] = {};
    float* const here = floats(rank.gpu);
    EXPECT_TRUE(failed_with(ech_allreduce(host, here, 9, ECH_FLOAT32, ECH_SUM, rank.comm),
                            ECH_ERR_INVALID));
    EXPECT_TRUE(says("send is in host memory, but recv in the memory of CUDA device 0"));
    EXPECT_TRUE(failed_with(
        ech_allreduce_on_stream(host, host, 9, ECH_FLOAT32, ECH_SUM, rank.comm, nullptr),
        ECH_ERR_INVALID));
    EXPECT_TRUE(says("host memory"));
    ech_call call = ECH_CALL_INIT;
    ech_request* request = nullptr;
    call.memory = ECH_MEMORY_HOST;
    EXPECT_TRUE(
        failed_with(ech_iallreduce(here, here, 9, ECH_FLOAT32, ECH_SUM, rank.comm, &call, &request),
                    ECH_ERR_INVALID));
    EXPECT_TRUE(says("call.memory says host"));
    call.memory = ECH_MEMORY_CUDA;
    EXPECT_TRUE(
        failed_with(ech_iallreduce(host, host, 9, ECH_FLOAT32, ECH_SUM, rank.comm, &call, &request),
                    ECH_ERR_INVALID));
    EXPECT_TRUE(ok(sum_up(here, rank.comm))) << "nothing has happened";
  });
}

// Two devices are there; each rank knows its own.
TEST(GpuErrors, MemoryAndStreamsOfAnotherGpuAreRefused) {
  if (count_gpus() < 2) GTEST_SKIP() << "needs 2 GPUs";
  run_on_gpus({{2}}, [](GpuRank& rank) {
    float* const own = floats(rank.gpu);
    const Gpu other(1 - rank.rank);
    float* const there = floats(other);
    const CudaStream stream_there = other.stream();
    EXPECT_TRUE(failed_with(sum_up(there, rank.comm), ECH_ERR_INVALID));
    EXPECT_TRUE(says("the memory of CUDA device " + std::to_string(1 - rank.rank) +
                     ", but the communicator uses device " + std::to_string(rank.rank)));
    EXPECT_TRUE(failed_with(sum_up_in(stream_there, own, rank.comm), ECH_ERR_INVALID));
    EXPECT_TRUE(says("does not belong to the communicator's CUDA device"));
    EXPECT_TRUE(ok(sum_up(own, rank.comm)));
  });
}

TEST(GpuErrors, AStreamThatIsCapturedIsRefused) {
  using SetCapturing = CudaResult (*)(CudaStream stream, int on);
  const auto set_capturing =
      reinterpret_cast<SetCapturing>(standin_symbol("standin_set_capturing"));
  if (set_capturing == nullptr) GTEST_SKIP() << "captures with a function of the stand-in";
  run_on_gpus({{1}}, [&](GpuRank& rank) {
    const CudaStream stream = rank.gpu.stream();
    float* const data = floats(rank.gpu);
    set_capturing(stream, 1);
    EXPECT_TRUE(failed_with(sum_up_in(stream, data, rank.comm), ECH_ERR_UNSUPPORTED));
    EXPECT_TRUE(says("CUDA graph"));
    set_capturing(stream, 0);
    EXPECT_TRUE(ok(sum_up_in(stream, data, rank.comm)));
    rank.gpu.wait(stream);
  });
}

TEST(GpuErrors, ARankWithoutAGpuIsNamed) {
  const World world;
  run_processes(2, [&](int rank) {
    std::unique_ptr<Gpu> gpu;
    if (rank == 0) gpu = std::make_unique<Gpu>();
    Comm comm = make_comm(world, {rank, 2});
    const Gpu late;
    EXPECT_TRUE(failed_with(sum_up(floats(late), comm.get()), ECH_ERR_UNSUPPORTED));
    EXPECT_TRUE(says("rank 1 on "));
    EXPECT_TRUE(says("no CUDA device was current on the thread that made the communicator"));
    EXPECT_TRUE(failed_with(ech_barrier_on_stream(comm.get(), nullptr), ECH_ERR_UNSUPPORTED));
    expect_works(comm.get());
    close(std::move(comm));
  });
}

// The ranks compare what they are doing after a while, and then know.
TEST(GpuErrors, HostMemoryHereAndCudaMemoryThereIsAMismatch) {
  run_on_gpus({{2}, false, {{"ECHELON_STALL", "0.2"}}}, [](GpuRank& rank) {
    float host[1000] = {};
    float* const data = rank.rank == 0 ? host : floats(rank.gpu);
    EXPECT_TRUE(failed_with(sum_up(data, rank.comm), ECH_ERR_MISMATCH));
    EXPECT_TRUE(says("CUDA memory"));
    EXPECT_TRUE(says("host memory"));
    EXPECT_TRUE(failed_with(sum_up(host, rank.comm), ECH_ERR_MISMATCH));
    EXPECT_TRUE(failed_with(sum_up(floats(rank.gpu), rank.comm), ECH_ERR_MISMATCH));
    rank.comm = nullptr;
  });
}

// As sum_up_in, but not waited for.
ech_request* start_in(CudaStream stream, float* data, std::size_t count, ech_comm* comm) {
  ech_call call = ECH_CALL_INIT;
  call.stream = stream;
  ech_request* request = nullptr;
  EXPECT_TRUE(ok(ech_iallreduce(data, data, count, ECH_FLOAT32, ECH_SUM, comm, &call, &request)));
  return request;
}

// A stream and memory for operations in it that are not the first.
struct Ready {
  explicit Ready(const GpuRank& rank) : stream(rank.gpu.stream()), data(floats(rank.gpu)) {
    EXPECT_TRUE(ok(sum_up(data, rank.comm)));
    EXPECT_TRUE(ok(ech_barrier(rank.comm)));
  }
  const CudaStream stream;
  float* const data;
};

// Whatever is in the memory by now stays there.
void expect_quiet(const GpuRank& rank, const float* data) {
  const auto before = rank.gpu.download<float>(cuda_pointer(data), 1000);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(rank.gpu.download<float>(cuda_pointer(data), 1000), before);
}

using Settings = std::vector<std::pair<const char*, const char*>>;
struct Ranks {
  const char* name;
  std::vector<int> hosts;
  Settings settings = {};  // of all of them

  GpuWorld world() const { return {hosts, false, settings}; }
};

class GpuFailures : public testing::TestWithParam<Ranks> {};

// On one host by NCCL, on two by messages, and by NCCL from host to host.
const Settings kNcclOverHosts = {{"ECHELON_ALGORITHM", "native"}};
INSTANTIATE_TEST_SUITE_P(Hosts, GpuFailures,
                         testing::Values(Ranks{"OnOne", {2}}, Ranks{"OnTwo", {1, 1}},
                                         Ranks{"ByNcclOnTwo", {1, 2}, kNcclOverHosts}),
                         [](const auto& info) { return info.param.name; });

TEST_P(GpuFailures, AnAbortEndsWhatIsUnderWay) {
  run_on_gpus(GetParam().world(), [](GpuRank& rank) {
    Ready ready(rank);
    if (rank.rank == 0) {
      ech_request* request = start_in(ready.stream, ready.data, 1000, rank.comm);
      std::this_thread::sleep_for(50ms);
      int done = 1;
      EXPECT_TRUE(ok(ech_test(request, &done)));
      EXPECT_EQ(done, 0);
      EXPECT_TRUE(ok(ech_comm_status(rank.comm)));
      EXPECT_TRUE(ok(ech_comm_abort(rank.comm)));
      EXPECT_TRUE(failed_with(ech_wait(&request), ECH_ERR_ABORTED));
      expect_quiet(rank, ready.data);
    }
    EXPECT_EQ(failure_of(rank.comm), ECH_ERR_ABORTED);
    EXPECT_TRUE(failed_with(sum_up_in(ready.stream, ready.data, rank.comm), ECH_ERR_ABORTED));
    EXPECT_TRUE(says("aborted"));
    float host[1000] = {};
    EXPECT_TRUE(failed_with(sum_up(host, rank.comm), ECH_ERR_ABORTED))
        << "both kinds fail together";
  });
}

TEST_P(GpuFailures, TheDeathOfARankEndsWhatIsUnderWay) {
  run_on_gpus(GetParam().world(), [](GpuRank& rank) {
    Ready ready(rank);
    std::atomic<int>& waits = rank.world.counter();
    if (rank.rank == 1) {
      while (waits == 0) std::this_thread::sleep_for(1ms);
      _exit(0);
    }
    ech_request* request = start_in(ready.stream, ready.data, 1000, rank.comm);
    ++waits;
    EXPECT_TRUE(failed_with(ech_wait(&request), ECH_ERR_PEER));
    EXPECT_TRUE(says("rank 1"));
    expect_quiet(rank, ready.data);
    EXPECT_TRUE(failed_with(sum_up(ready.data, rank.comm), ECH_ERR_PEER));
  });
}

// It tells that a connection is closed, but not by whom.
TEST(GpuFailure, OfARankIsNamedWhereNcclNoticesFirst) {
  const Settings settings = {{"ECHELON_ALGORITHM", "native"}, {"STANDIN_NCCL_FAIL", "async:2=6"}};
  run_on_gpus({{1, 1}, false, settings}, [](GpuRank& rank) {
    Ready ready(rank);
    std::atomic<int>& waits = rank.world.counter();
    if (rank.rank == 1) {
      while (waits == 0) std::this_thread::sleep_for(1ms);
      _exit(0);
    }
    ech_request* request = start_in(ready.stream, ready.data, 1000, rank.comm);
    ++waits;
    EXPECT_TRUE(failed_with(ech_wait(&request), ECH_ERR_PEER));
    EXPECT_TRUE(says("rank 1"));
  });
}

// Calls over all hosts and inside them, in one stream.
TEST(GpuFailure, OfARankEndsBothKindsOfCalls) {
  const TempFolder folder("echelon-gpu-failures");
  const std::string file = narrow_network(folder);
  run_on_gpus({{2, 1, 2}, false, {{"ECHELON_FABRIC", file.c_str()}}}, [](GpuRank& rank) {
    constexpr std::size_t kLarge = 500'000;
    const CudaStream stream = rank.gpu.stream();
    float* const data = reinterpret_cast<float*>(rank.gpu.memory(kLarge * sizeof(float)));
    std::vector<ech_request*> requests;
    const auto start_both = [&] {
      for (std::size_t count : {std::size_t{100}, kLarge})
        requests.push_back(start_in(stream, data, count, rank.comm));
    };
    start_both();
    EXPECT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    requests.clear();
    EXPECT_TRUE(ok(ech_barrier(rank.comm)));
    std::atomic<int>& waits = rank.world.counter();
    if (rank.rank == 1) {
      while (waits < rank.size - 1) std::this_thread::sleep_for(1ms);
      _exit(0);
    }
    for (int k = 0; k < 3; ++k) start_both();
    ++waits;
    EXPECT_TRUE(failed_with(ech_wait_all(requests.size(), requests.data()), ECH_ERR_PEER));
    EXPECT_TRUE(says("rank 1"));
    expect_quiet(rank, data);
  });
}

TEST_P(GpuFailures, ARankThatDoesNotComeEndsAtTheDeadline) {
  GpuWorld world = GetParam().world();
  world.environment.emplace_back("ECHELON_STALL", "0.2");
  run_on_gpus(world, [](GpuRank& rank) {
    Ready ready(rank);
    if (rank.rank == 0) {
      ech_call call = ECH_CALL_INIT;
      call.timeout = 3;
      call.stream = ready.stream;
      ech_request* request = nullptr;
      ASSERT_TRUE(ok(ech_iallreduce(ready.data, ready.data, 1000, ECH_FLOAT32, ECH_SUM, rank.comm,
                                    &call, &request)));
      EXPECT_TRUE(failed_with(ech_wait(&request), ECH_ERR_TIMEOUT));
      EXPECT_TRUE(says("rank 1"));
      rank.gpu.wait(ready.stream);
    }
    EXPECT_EQ(failure_of(rank.comm), ECH_ERR_TIMEOUT);
  });
}

// What rank 1 finds out, all ranks hear, and their streams go on.
void expect_failure(GpuWorld world) {
  if (!on_standin()) GTEST_SKIP() << "only the stand-in fails when it is told to";
  run_on_gpus(world, [&](GpuRank& rank) {
    const CudaStream stream = rank.gpu.stream();
    float* const data = floats(rank.gpu);
    ech_status status = ECH_OK;
    for (int k = 0; k < 50 && status == ECH_OK; ++k)
      status = k % 2 == 0 ? sum_up(data, rank.comm) : sum_up_in(stream, data, rank.comm);
    rank.gpu.wait(stream);
    EXPECT_TRUE(failed_with(failure_of(rank.comm), ECH_ERR_SYSTEM));
    EXPECT_TRUE(says("nccl") || says("cuMemcpyDtoHAsync") || says("NCCL"));
    EXPECT_TRUE(says("rank 1 on "));
    expect_quiet(rank, data);
  });
}

GpuWorld failing(const Ranks& ranks, const char* variable, const char* fault) {
  GpuWorld world = ranks.world();
  world.of_rank_1 = {{variable, fault}};
  return world;
}

TEST(GpuFaults, OfACopy) {
  expect_failure(failing({"", {1, 1}}, "STANDIN_CUDA_FAIL", "cuMemcpyDtoHAsync_v2:7=700"));
}
TEST(GpuFaults, OfACallOfNccl) {
  expect_failure(failing({"", {2}}, "STANDIN_NCCL_FAIL", "ncclAllReduce:5=3"));
}
TEST(GpuFaults, OfNcclLater) {
  expect_failure(failing({"", {2}}, "STANDIN_NCCL_FAIL", "async:6=3"));
}
TEST(GpuFaults, OfNcclOverHosts) {
  expect_failure(failing({"", {1, 1}, kNcclOverHosts}, "STANDIN_NCCL_FAIL", "async:6=3"));
}
TEST(GpuFaults, OfNcclThatDoesNotReachTheOtherHost) {
  GpuWorld world =
      failing({"", {1, 1}, kNcclOverHosts}, "STANDIN_NCCL_FAIL", "ncclCommInitRankConfig:1=2");
  world.heard = "rank 1 on ";
  expect_failure(world);
}

}  // namespace
}  // namespace echelon::test
