// SPDX-License-Identifier: Apache-2.0
// What the stand-in for libcuda.so.1 is told by the environment, and how the library tells of its
// errors.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "tests/standin/standin_cuda.h"
#include "tests/support/gpu.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

void with(const char* variable, const char* value, const std::function<void()>& body) {
  run_processes(1, [&](int) {
    setenv(variable, value, 1);
    body();
  });
}

double seconds_of(const std::function<void()>& body) {
  const auto begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(StandinCudaSettings, NumberOfDevices) {
  with("STANDIN_CUDA_DEVICES", "3", [] {
    const Gpu gpu(2);
    int count = 0;
    gpu.check(gpu->device_get_count(&count), "cuDeviceGetCount");
    EXPECT_EQ(count, 3);
    CudaDevice device = -1;
    gpu.check(gpu->ctx_get_device(&device), "cuCtxGetDevice");
    EXPECT_EQ(device, 2);
    EXPECT_EQ(gpu->device_get(&device, 3), kCudaInvalidDevice);
    CudaUuid one, other;
    gpu.check(gpu->device_get_uuid(&one, 0), "cuDeviceGetUuid");
    gpu.check(gpu->device_get_uuid(&other, 2), "cuDeviceGetUuid");
    EXPECT_NE(std::memcmp(&one, &other, sizeof one), 0);
    char id[32] = {};
    gpu.check(gpu->device_get_pci_bus_id(id, sizeof id, 2), "cuDeviceGetPCIBusId");
    EXPECT_STREQ(id, "0000:12:00.0");
  });
  with("STANDIN_CUDA_DEVICES", "0", [] { EXPECT_EQ(cuda_driver()->init(0), kCudaNoDevice); });
}

TEST(StandinCudaSettings, AnOldDriverIsRefused) {
  with("STANDIN_CUDA_VERSION", "10020", [] {
    EXPECT_EQ(cuda_driver(), nullptr);
    EXPECT_EQ(cuda_absence(), "libcuda.so.1 is for CUDA 10.2, 11.0 or newer is needed");
  });
}

// One copy at a time in each direction, both directions at once.
TEST(StandinCudaSettings, BandwidthOfEachDirection) {
  with("STANDIN_CUDA_BANDWIDTH", "10e6", [] {
    const Gpu gpu;
    constexpr std::size_t kBytes = 1000000;
    const CudaStream in = gpu.stream(), out = gpu.stream();
    const CudaPointer device = gpu.memory(2 * kBytes);
    void* pinned = nullptr;
    gpu.check(gpu->mem_host_alloc(&pinned, 2 * kBytes, 0), "cuMemHostAlloc");
    const auto both_ways = [&] {
      gpu.check(gpu->memcpy_htod_async(device, pinned, kBytes, in), "in");
      gpu.check(
          gpu->memcpy_dtoh_async(static_cast<char*>(pinned) + kBytes, device + kBytes, kBytes, out),
          "out");
      gpu.wait(in);
      gpu.wait(out);
    };
    // Of several: a loaded machine wakes sleepers late.
    double both = seconds_of(both_ways);
    EXPECT_GE(both, 0.1);
    for (int i = 0; i < 20 && both >= 0.19; ++i) both = seconds_of(both_ways);
    EXPECT_LT(both, 0.19);
    const double twice = seconds_of([&] {
      gpu.check(gpu->memcpy_htod_async(device, pinned, kBytes, in), "in");
      gpu.check(gpu->memcpy_htod_async(device, pinned, kBytes, out), "in, by another stream");
      gpu.wait(in);
      gpu.wait(out);
    });
    EXPECT_GE(twice, 0.2);
  });
}

TEST(StandinCudaSettings, TheNthCallFailsAndTheErrorSaysWhat) {
  with("STANDIN_CUDA_FAIL", "cuMemAlloc_v2:2=2,cuEventRecord:1=700", [] {
    const Gpu gpu;
    CudaPointer memory = 0;
    EXPECT_EQ(gpu->mem_alloc(&memory, 8), kCudaSuccess);
    const CudaResult full = gpu->mem_alloc(&memory, 8);
    EXPECT_EQ(full, kCudaOutOfMemory);
    EXPECT_EQ(gpu->mem_alloc(&memory, 8), kCudaSuccess);
    const Error error = cuda_error(*gpu, full, "cuMemAlloc");
    EXPECT_EQ(error.code(), ECH_ERR_NO_MEMORY);
    EXPECT_STREQ(error.what(),
                 "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY); nvidia-smi shows which "
                 "processes hold GPU memory");
    try {
      gpu.check(gpu->event_record(gpu.event(), nullptr), "cuEventRecord");
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_SYSTEM);
      EXPECT_STREQ(e.what(),
                   "cuEventRecord: an illegal memory access (CUDA_ERROR_ILLEGAL_ADDRESS)");
    }
    EXPECT_STREQ(cuda_error(*gpu, CudaResult(12345), "cuInit").what(),
                 "cuInit: error 12345, which this driver cannot name");
  });
}

TEST(StandinCudaSettings, ABrokenDeviceStaysBroken) {
  with("STANDIN_CUDA_DEVICES", "1", [] {
    const Gpu gpu;
    const CudaStream stream = gpu.stream();
    standin_break(kCudaIllegalAddress);
    EXPECT_EQ(gpu->stream_synchronize(stream), kCudaIllegalAddress);
    CudaPointer memory = 0;
    EXPECT_EQ(gpu->mem_alloc(&memory, 8), kCudaIllegalAddress);
  });
}

}  // namespace
}  // namespace echelon::test
