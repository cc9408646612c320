// SPDX-License-Identifier: Apache-2.0
// Memory of ech_alloc on GPUs is made known to NCCL, and NCCL forgets it in time. On the stand-ins.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/multi/gpu_world.h"
#include "transports/cuda/device.h"

namespace echelon::test {
namespace {

struct Registered {
  int now = 0, ever = 0;
};

// By this process; NCCL has been loaded.
Registered registered() {
  using Count = void (*)(int* now, int* ever);
  void* const nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  const auto count =
      nccl == nullptr ? nullptr : reinterpret_cast<Count>(dlsym(nccl, "standin_registrations"));
  if (count == nullptr) throw std::runtime_error("no stand-in for NCCL is loaded");
  Registered r;
  count(&r.now, &r.ever);
  return r;
}

void expect_registered(int now, int ever, const char* when) {
  EXPECT_EQ(registered().now, now) << when;
  EXPECT_EQ(registered().ever, ever) << when;
}

constexpr std::size_t kCount = 100'000;

float* allocated() {
  void* memory = nullptr;
  EXPECT_TRUE(ok(ech_alloc(&memory, kCount * sizeof(float), ECH_MEMORY_CUDA)));
  return static_cast<float*>(memory);
}

ech_status sum_up(float* data, std::size_t count, ech_comm* comm) {
  return ech_allreduce(data, data, count, ECH_FLOAT32, ECH_SUM, comm);
}

void expect_sum(const GpuRank& rank, float* data) {
  const std::vector<float> ones(kCount, 1);
  rank.gpu.check(
      rank.gpu->memcpy_htod_async(cuda_pointer(data), ones.data(), kCount * sizeof(float), nullptr),
      "cuMemcpyHtoDAsync");
  rank.gpu.wait(nullptr);
  EXPECT_TRUE(ok(sum_up(data, kCount, rank.comm)));
  EXPECT_EQ(rank.gpu.download<float>(cuda_pointer(data), kCount),
            std::vector<float>(kCount, static_cast<float>(rank.size)));
}

// The same ranks in a communicator that the test destroys.
GpuRank again(const GpuRank& rank) {
  GpuRank own{rank.rank, rank.size, rank.gpu, nullptr, rank.world};
  EXPECT_TRUE(ok(ech_comm_split(rank.comm, 0, rank.rank, &own.comm)));
  return own;
}

GpuWorld registering(std::vector<int> hosts) {
  return {std::move(hosts), false, {{"ECHELON_NCCL_REGISTER", "1"}}};
}

class GpuRegistration : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_standin()) GTEST_SKIP() << "only the stand-in counts what is registered";
  }
};

TEST_F(GpuRegistration, IsDoneOnceAndUndoneBeforeTheMemoryIsFreed) {
  run_on_gpus(registering({2}), [](GpuRank& whole) {
    const GpuRank rank = again(whole);
    float* const memory = allocated();
    expect_registered(0, 0, "not before NCCL has a communicator");
    for (int k = 0; k < 3; ++k) expect_sum(rank, memory);
    EXPECT_TRUE(ok(sum_up(memory + 10, 1000, rank.comm)));
    expect_registered(1, 1, "once, whatever part of it is used");
    run_and_check(rank, {ECH_ALLREDUCE, 1000}, Form::kBlocking);
    expect_registered(1, 1, "other memory is not");
    float* const second = allocated();
    expect_sum(rank, second);
    expect_registered(2, 2, "another block");
    EXPECT_TRUE(ok(ech_free(memory)));
    expect_registered(1, 2, "after it was freed");
    float* const third = allocated();  // perhaps where the first was
    expect_sum(rank, third);
    expect_registered(2, 3, "a new block");
    EXPECT_TRUE(ok(ech_free(second)));
    EXPECT_TRUE(ok(ech_comm_destroy(rank.comm)));
    expect_registered(0, 3, "after the communicator");
    EXPECT_TRUE(ok(ech_free(third)));
  });
}

TEST_F(GpuRegistration, IsPerGroup) {
  GpuWorld world = registering({2, 2});
  world.environment.emplace_back("ECHELON_ALGORITHM", "native");
  run_on_gpus(world, [](GpuRank& rank) {
    float* const memory = allocated();
    expect_sum(rank, memory);
    ech_comm* part = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(rank.comm, rank.rank / 2, rank.rank, &part)));
    EXPECT_TRUE(ok(sum_up(memory, kCount, part)));
    expect_registered(2, 2, "with NCCL's communicators of both");
    EXPECT_TRUE(ok(ech_free(memory)));
    expect_registered(0, 2, "with none");
    EXPECT_TRUE(ok(ech_comm_destroy(part)));
  });
}

TEST_F(GpuRegistration, MayBeRefused) {
  GpuWorld world = registering({2});
  world.of_rank_1 = {{"STANDIN_NCCL_FAIL", "ncclCommRegister:1=3"}};
  run_on_gpus(world, [](GpuRank& rank) {
    float* const memory = allocated();
    for (int k = 0; k < 3; ++k) expect_sum(rank, memory);
    const int known = rank.rank == 1 ? 0 : 1;
    expect_registered(known, known, "NCCL is not asked twice");
    EXPECT_TRUE(ok(ech_free(memory)));
    expect_registered(0, known, "at the end");
  });
}

TEST_F(GpuRegistration, IsNotDoneUnlessAskedFor) {
  run_on_gpus({{2}}, [](GpuRank& rank) {
    float* const memory = allocated();
    expect_sum(rank, memory);
    expect_registered(0, 0, "by default");
    EXPECT_TRUE(ok(ech_free(memory)));
  });
}

// What a program allocates itself may lie where a block of ech_alloc was.
TEST_F(GpuRegistration, IsNotDoneOfMemoryThatWasFreed) {
  run_on_gpus(registering({2}), [](GpuRank& rank) {
    float* const memory = allocated();
    expect_sum(rank, memory);
    EXPECT_TRUE(ok(ech_free(memory)));
    run_and_check(rank, {ECH_ALLREDUCE, kCount}, Form::kBlocking);
    expect_registered(0, 1, "memory of the program's own");
  });
}

TEST_F(GpuRegistration, EndsOnlyWhenNcclHasTakenUpTheLastCall) {
  GpuWorld world = registering({2});
  world.environment.emplace_back("STANDIN_NCCL_DELAY", "0.05");
  run_on_gpus(world, [](GpuRank& rank) {
    float* const first = allocated();
    float* const second = allocated();
    expect_sum(rank, first);
    expect_sum(rank, second);
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(ech_iallreduce(second, second, kCount, ECH_FLOAT32, ECH_SUM, rank.comm, nullptr,
                                  &request)));
    EXPECT_TRUE(ok(ech_free(first)));
    expect_registered(1, 2, "with a call on its way");
    EXPECT_TRUE(ok(ech_wait(&request)));
    EXPECT_TRUE(ok(ech_free(second)));
    expect_registered(0, 2, "at the end");
  });
}

// As of a rank that is dead: there is an end to waiting for it, and once is enough.
TEST_F(GpuRegistration, EndsAfterASecondWhateverNcclDoes) {
  GpuWorld world = registering({2});
  world.environment.emplace_back("STANDIN_NCCL_DELAY", "3");
  run_on_gpus(world, [](GpuRank& rank) {
    float* const blocks[] = {allocated(), allocated(), allocated()};
    ech_request* request = nullptr;
    for (float* block : {blocks[0], blocks[1]}) {
      ASSERT_TRUE(ok(ech_iallreduce(block, block, kCount, ECH_FLOAT32, ECH_SUM, rank.comm, nullptr,
                                    &request)));
      ASSERT_TRUE(ok(ech_wait(&request)));
    }
    float* const last = blocks[2];
    ASSERT_TRUE(
        ok(ech_iallreduce(last, last, kCount, ECH_FLOAT32, ECH_SUM, rank.comm, nullptr, &request)));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(ok(ech_free(blocks[0])));
    EXPECT_TRUE(ok(ech_free(blocks[1])));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1900));
    EXPECT_TRUE(ok(ech_wait(&request)));
    EXPECT_TRUE(ok(ech_free(last)));
  });
}

float* spare = nullptr;
int complaints = 0;

// Freeing memory waits for whoever registers some; who reads the log may wait for both.
TEST_F(GpuRegistration, ComplainsWhereOthersCanFreeMemory) {
  GpuWorld world = registering({2});
  world.of_rank_1 = {{"STANDIN_NCCL_FAIL", "ncclCommRegister:1=3"}};
  world.log = [](ech_log_level, const char* line, void*) {
    if (std::string(line).find("without NCCL knowing it") == std::string::npos) return;
    ++complaints;
    std::thread([] { EXPECT_TRUE(ok(ech_free(spare))); }).join();
  };
  run_on_gpus(world, [](GpuRank& rank) {
    spare = allocated();
    float* const memory = allocated();
    expect_sum(rank, memory);
    EXPECT_EQ(complaints, rank.rank);
    EXPECT_TRUE(ok(ech_free(memory)));
  });
}

TEST_F(GpuRegistration, EndsWithAFailedCommunicator) {
  run_on_gpus(registering({2}), [](GpuRank& whole) {
    const GpuRank rank = again(whole);
    float* const memory = allocated();
    expect_sum(rank, memory);
    std::atomic<int>& done = rank.world.counter();
    ++done;
    while (done < rank.size) usleep(1000);
    if (rank.rank == 0) {
      EXPECT_TRUE(ok(ech_comm_abort(rank.comm)));
    }
    while (ech_comm_status(rank.comm) == ECH_OK) usleep(1000);
    EXPECT_FALSE(ok(sum_up(memory, kCount, rank.comm)));
    ech_comm_destroy(rank.comm);
    expect_registered(0, 1, "after the failure");
    EXPECT_TRUE(ok(ech_free(memory)));
  });
}

}  // namespace
}  // namespace echelon::test
