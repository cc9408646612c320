// SPDX-License-Identifier: Apache-2.0
// Collectives in CUDA streams: their order with what else is there, on the stand-ins.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/multi/gpu_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using namespace std::chrono_literals;
using Values = std::vector<std::int32_t>;

constexpr std::pair<const char*, const char*> kSlowCopies{"STANDIN_CUDA_LATENCY", "0.003"};

// Makes what the first operation makes.
void warm_up(const GpuRank& rank) {
  GpuTrial trial(rank, {ECH_ALLREDUCE, 10});
  ASSERT_TRUE(ok(trial.run()));
}

std::int32_t sum_over(int size, std::int32_t added) { return size * (size + 1) / 2 + size * added; }

// Pinned, so that copies are asynchronous.
class Pinned {
 public:
  Pinned(const Gpu& gpu, std::size_t count) : gpu_(gpu), count_(count) {
    void* memory = nullptr;
    gpu.check(gpu->mem_host_alloc(&memory, count * sizeof(std::int32_t), 0), "cuMemHostAlloc");
    data_ = static_cast<std::int32_t*>(memory);
  }
  ~Pinned() { gpu_->mem_free_host(data_); }
  Pinned(const Pinned&) = delete;
  std::int32_t* data() { return data_; }
  Values values() const { return {data_, data_ + count_}; }
  void fill(std::int32_t value) { std::fill(data_, data_ + count_, value); }

 private:
  const Gpu& gpu_;
  const std::size_t count_;
  std::int32_t* data_ = nullptr;
};

// A stream with buffers of its own: what goes in, what is summed up, what comes out.
struct Lane {
  Lane(const GpuRank& r, std::size_t n)
      : rank(r),
        count(n),
        stream(r.gpu.stream()),
        in(r.gpu, n),
        out(r.gpu, n),
        memory(r.gpu.memory(n * sizeof(std::int32_t))) {}

  // Copies in, sums up, copies out.
  void put_round(std::int32_t value) {
    in.fill(value);
    const Gpu& gpu = rank.gpu;
    const std::size_t bytes = count * sizeof(std::int32_t);
    gpu.check(gpu->memcpy_htod_async(memory, in.data(), bytes, stream), "cuMemcpyHtoDAsync");
    void* const there = reinterpret_cast<void*>(memory);
    ASSERT_TRUE(
        ok(ech_allreduce_on_stream(there, there, count, ECH_INT32, ECH_SUM, rank.comm, stream)));
    gpu.check(gpu->memcpy_dtoh_async(out.data(), memory, bytes, stream), "cuMemcpyDtoHAsync");
  }

  const GpuRank& rank;
  const std::size_t count;
  const CudaStream stream;
  Pinned in, out;
  const CudaPointer memory;
};

class GpuStreams : public testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Hosts, GpuStreams,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{1, 1},
                                         std::vector{2, 2}),
                         [](const auto& info) {
                           std::string name = "On";
                           for (int gpus : info.param) name += std::to_string(gpus);
                           return name;
                         });

TEST_P(GpuStreams, TakeTheirTurnAmongSlowCopies) {
  run_on_gpus({GetParam(), false, {kSlowCopies}}, [](GpuRank& rank) {
    warm_up(rank);
    Lane lane(rank, 5000);
    for (std::int32_t round = 0; round < 5; ++round) {
      lane.put_round(rank.rank + 1 + round);
      rank.gpu.wait(lane.stream);
      EXPECT_EQ(lane.out.values(), Values(5000, sum_over(rank.size, round)));
    }
    EXPECT_TRUE(ok(ech_comm_status(rank.comm)));
  });
}

TEST_P(GpuStreams, AreSeveralAndTakeManyOperations) {
  run_on_gpus({GetParam(), false, {kSlowCopies}}, [](GpuRank& rank) {
    warm_up(rank);
    std::vector<std::unique_ptr<Lane>> lanes;
    for (std::size_t k = 0; k < 3; ++k)
      lanes.push_back(std::make_unique<Lane>(rank, 1000 * (k + 1)));
    for (std::int32_t k = 0; k < 3; ++k) lanes[k]->put_round(rank.rank + 1 + k);
    // On top of the sums, in the same streams.
    for (int k = 0; k < 6; ++k) {
      Lane& lane = *lanes[static_cast<std::size_t>(k) % 3];
      void* const there = reinterpret_cast<void*>(lane.memory);
      ASSERT_TRUE(ok(ech_allreduce_on_stream(there, there, lane.count, ECH_INT32, ECH_MAX,
                                             rank.comm, lane.stream)));
    }
    for (auto& lane : lanes) rank.gpu.wait(lane->stream);
    for (std::int32_t k = 0; k < 3; ++k)
      EXPECT_EQ(rank.gpu.download<std::int32_t>(lanes[k]->memory, lanes[k]->count),
                Values(lanes[k]->count, sum_over(rank.size, k)));
  });
}

ech_call call_in(CudaStream stream) {
  ech_call call = ECH_CALL_INIT;
  call.stream = stream;
  return call;
}

// A request is waited for by who asks for it alone: the caller's thread and host memory go on.
TEST_P(GpuStreams, AreNotWaitedForByRequests) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    warm_up(rank);
    const CudaStream stream = rank.gpu.stream();
    Gate gate;
    gate.put_into(rank.gpu, stream);
    GpuTrial sum(rank, {ECH_ALLREDUCE, 1000});
    const ech_call call = call_in(stream);
    ech_request *of_sum = nullptr, *of_barrier = nullptr;
    ASSERT_TRUE(ok(sum.start(&of_sum, &call)));
    ASSERT_TRUE(ok(ech_ibarrier(rank.comm, &call, &of_barrier)));
    std::this_thread::sleep_for(50ms);
    expect_works(rank.comm);
    int done = 1;
    EXPECT_TRUE(ok(ech_test(of_sum, &done)));
    EXPECT_EQ(done, 0);
    gate.open();
    EXPECT_TRUE(ok(ech_wait(&of_barrier)));
    EXPECT_TRUE(ok(ech_wait(&of_sum)));
    sum.check();
  });
}

// The timeout counts from when the stream has come to the operation.
TEST_P(GpuStreams, MayComeLate) {
  run_on_gpus({GetParam(), false, {{"ECHELON_STALL", "0.1"}}}, [](GpuRank& rank) {
    warm_up(rank);
    const CudaStream stream = rank.gpu.stream();
    Gate gate;
    gate.put_into(rank.gpu, stream);
    GpuTrial sum(rank, {ECH_ALLREDUCE, 1000});
    ech_call call = call_in(stream);
    call.timeout = 5 * kSlowness;
    std::int32_t* const memory = reinterpret_cast<std::int32_t*>(rank.gpu.memory(40));
    ech_request* request = nullptr;
    ASSERT_TRUE(
        ok(ech_iallreduce(memory, memory, 10, ECH_INT32, ECH_SUM, rank.comm, &call, &request)));
    std::this_thread::sleep_for(300ms);
    int done = 1;
    EXPECT_TRUE(ok(ech_test(request, &done)));
    EXPECT_EQ(done, 0);
    gate.open();
    EXPECT_TRUE(ok(ech_wait(&request)));
    rank.gpu.wait(stream);
  });
}

// So that no stream has to wait (docs/gpu.md), and what comes next in it finds the result.
TEST_P(GpuStreams, ReturnWhenTheyHaveEnded) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    const CudaStream stream = rank.gpu.stream();
    for (std::size_t count : {10, 1000, 300'000}) {
      GpuTrial sum(rank, {ECH_ALLREDUCE, count});
      ASSERT_TRUE(ok(sum.run_in(stream)));
      EXPECT_EQ(rank.gpu->stream_query(stream), kCudaSuccess);
      sum.check();
    }
  });
}

TEST_P(GpuStreams, TheDefaultStreamIsOne) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    warm_up(rank);
    GpuTrial sum(rank, {ECH_ALLREDUCE, 1000});
    ASSERT_TRUE(ok(sum.run_in(nullptr)));
    rank.gpu.wait(nullptr);
    sum.check();
  });
}

}  // namespace
}  // namespace echelon::test
