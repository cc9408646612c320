// SPDX-License-Identifier: Apache-2.0
// Memory of a device is recognised, and refused where nothing can be done with it. On the
// stand-in; every test is a process of its own, as one that has used CUDA cannot be forked.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>

#include "echelon/echelon.h"
#include "tests/support/gpu.h"
#include "tests/support/ranks.h"
#include "transports/cuda/pointer.h"

namespace echelon::test {
namespace {

using AllocateManaged = CudaResult (*)(CudaPointer* pointer, std::size_t bytes, unsigned flags);
constexpr unsigned kGlobal = 1;

CudaPointer managed_memory(const Gpu& gpu, std::size_t bytes) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto allocate = reinterpret_cast<AllocateManaged>(dlsym(library, "cuMemAllocManaged"));
  CudaPointer made = 0;
  gpu.check(allocate(&made, bytes, kGlobal), "cuMemAllocManaged");
  return made;
}

void* pinned_memory(const Gpu& gpu, std::size_t bytes) {
  void* made = nullptr;
  gpu.check(gpu->mem_host_alloc(&made, bytes, 0), "cuMemHostAlloc");
  return made;
}

PointerPlace at(CudaPointer pointer) { return place_of(reinterpret_cast<const void*>(pointer)); }

TEST(Pointer, TellsWhoseMemoryItPointsTo) {
  if (!on_standin())
    GTEST_SKIP() << "needs 2 GPUs, of which the stand-in has as many as it is told";
  run_processes(1, [](int) {
    setenv("STANDIN_CUDA_DEVICES", "2", 1);
    const Gpu other(0), gpu(1);
    const CudaPointer device = gpu.memory(4096);
    EXPECT_EQ(at(device).kind, MemoryKind::kDevice);
    EXPECT_EQ(at(device).device, 1);
    EXPECT_EQ(at(device + 4095).kind, MemoryKind::kDevice);
    EXPECT_EQ(at(managed_memory(gpu, 64)).kind, MemoryKind::kDevice);
    EXPECT_EQ(kind_of(pinned_memory(gpu, 64)), MemoryKind::kHost);
    EXPECT_EQ(kind_of(&gpu), MemoryKind::kHost);
    EXPECT_EQ(kind_of(nullptr), MemoryKind::kHost);
    gpu.check(gpu->mem_free(device), "cuMemFree");
    EXPECT_EQ(at(device).kind, MemoryKind::kHost);
  });
}

TEST(Pointer, IsTheHostsWhereCudaCannotBeUsedOrIsNotUsed) {
  if (!on_standin()) GTEST_SKIP() << "only the stand-in is as old as it is told";
  run_processes(1, [](int) {
    int here = 0;
    EXPECT_EQ(kind_of(&here), MemoryKind::kHost) << "CUDA is not initialized";
  });
  run_processes(1, [](int) {
    setenv("STANDIN_CUDA_VERSION", "10020", 1);
    int here = 0;
    EXPECT_EQ(kind_of(&here), MemoryKind::kHost);
    EXPECT_STREQ(no_device_memory("buffers").what(),
                 "buffers cannot be used: libcuda.so.1 is for CUDA 10.2, 11.0 or newer is needed");
  });
}

void with_communicator(const std::function<void(const Gpu&, ech_comm*)>& body) {
  run_processes(1, [&](int) {
    ech_comm_options options = ECH_COMM_OPTIONS_INIT;
    ech_unique_id id;
    ASSERT_EQ(ech_get_unique_id(&id, "lo"), ECH_OK) << ech_last_error();
    options.unique_id = &id;
    options.size = 1;
    options.interface_name = "lo";
    ech_comm* comm = nullptr;
    ASSERT_EQ(ech_comm_create(&comm, &options), ECH_OK) << ech_last_error();
    const Gpu gpu;
    body(gpu, comm);
    EXPECT_EQ(ech_comm_destroy(comm), ECH_OK) << ech_last_error();
  });
}

void expect_refused(ech_status status) {
  EXPECT_EQ(status, ECH_ERR_UNSUPPORTED);
  EXPECT_NE(std::string(ech_last_error())
                .find("no CUDA device was current on the thread that made the communicator"),
            std::string::npos)
      << ech_last_error();
}

TEST(DeviceMemory, IsRefusedByEveryCollectiveOfACommunicatorWithoutAGpu) {
  with_communicator([](const Gpu& gpu, ech_comm* comm) {
    void* device = reinterpret_cast<void*>(gpu.memory(64));
    const auto f32 = ECH_FLOAT32;
    const auto sum = ECH_SUM;
    expect_refused(ech_allreduce(device, device, 8, f32, sum, comm));
    expect_refused(ech_reduce_scatter(device, device, 8, f32, sum, comm));
    expect_refused(ech_allgather(device, device, 8, f32, comm));
    expect_refused(ech_broadcast(device, device, 8, f32, 0, comm));
    expect_refused(ech_reduce(device, device, 8, f32, sum, 0, comm));
    ech_request* request = nullptr;
    expect_refused(ech_iallreduce(device, device, 8, f32, sum, comm, nullptr, &request));
    expect_refused(ech_allreduce_on_stream(device, device, 8, f32, sum, comm, nullptr));
    expect_refused(ech_barrier_on_stream(comm, nullptr));
    ech_question question = ECH_QUESTION_INIT;
    question.count = 8;
    question.memory = ECH_MEMORY_CUDA;
    char* text = nullptr;
    expect_refused(ech_comm_explain(comm, &question, ECH_TEXT, &text));
    void* managed = reinterpret_cast<void*>(managed_memory(gpu, 64));
    expect_refused(ech_allreduce(managed, managed, 8, f32, sum, comm));
  });
}

TEST(DeviceMemory, PinnedMemoryIsTheHosts) {
  with_communicator([](const Gpu& gpu, ech_comm* comm) {
    auto* pinned = static_cast<float*>(pinned_memory(gpu, 64));
    pinned[0] = 5;
    EXPECT_EQ(ech_allreduce(pinned, pinned + 8, 1, ECH_FLOAT32, ECH_SUM, comm), ECH_OK);
    EXPECT_EQ(pinned[8], 5);
  });
}

TEST(DeviceMemory, CannotBeAskedForWithoutADevice) {
  run_processes(1, [](int) {
    void* memory = nullptr;
    EXPECT_EQ(ech_alloc(&memory, 8, ECH_MEMORY_CUDA), ECH_ERR_UNSUPPORTED);
    EXPECT_STREQ(ech_last_error(),
                 "CUDA memory cannot be used: no CUDA device is current on this thread");
  });
  if (!on_standin()) return;
  run_processes(1, [](int) {
    setenv("STANDIN_CUDA_VERSION", "10020", 1);
    void* memory = nullptr;
    EXPECT_EQ(ech_alloc(&memory, 8, ECH_MEMORY_CUDA), ECH_ERR_UNSUPPORTED);
    EXPECT_STREQ(
        ech_last_error(),
        "CUDA memory cannot be used: libcuda.so.1 is for CUDA 10.2, 11.0 or newer is needed");
  });
}

}  // namespace
}  // namespace echelon::test
