// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda.so.1 keeps CUDA's promises about order, memory and errors. Every test is
// a process of its own, as a process that has used CUDA cannot be forked.
#include "tests/standin/standin_cuda.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "tests/standin/standin_cuda_api.h"
#include "tests/support/gpu.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using namespace std::chrono_literals;

void in_process(const std::function<void(Gpu&)>& body) {
  run_processes(1, [&](int) {
    Gpu gpu;
    body(gpu);
  });
}

using Log = std::vector<int>;

// Adds `value` to the log when the stream comes to it. One stream at a time.
void note(const Gpu& gpu, CudaStream stream, Log& log, int value) {
  struct Note {
    Log* log;
    int value;
  };
  const auto write = [](void* data) {
    const std::unique_ptr<Note> one(static_cast<Note*>(data));
    one->log->push_back(one->value);
  };
  gpu.check(gpu->launch_host_func(stream, write, new Note{&log, value}), "cuLaunchHostFunc");
}

TEST(StandinCuda, AStreamReturnsAtOnceAndKeepsItsOrder) {
  in_process([](Gpu& gpu) {
    const CudaStream stream = gpu.stream();
    Gate gate;
    Log log;
    gate.put_into(gpu, stream);
    for (int i = 0; i < 5; ++i) note(gpu, stream, log, i);
    EXPECT_EQ(gpu->stream_query(stream), kCudaNotReady);
    gate.open();
    gpu.wait(stream);
    EXPECT_EQ(log, (Log{0, 1, 2, 3, 4}));
    EXPECT_EQ(gpu->stream_query(stream), kCudaSuccess);
    EXPECT_EQ(gpu->stream_destroy(stream), kCudaSuccess);
    EXPECT_EQ(gpu->stream_query(stream), kCudaInvalidHandle);
  });
}

TEST(StandinCuda, ADestroyedStreamStillDoesItsWork) {
  in_process([](Gpu& gpu) {
    const CudaStream stream = gpu.stream();
    std::promise<void> done;
    Gate gate;
    gate.put_into(gpu, stream);
    const auto finish = [](void* data) { static_cast<std::promise<void>*>(data)->set_value(); };
    gpu.check(gpu->launch_host_func(stream, finish, &done), "cuLaunchHostFunc");
    EXPECT_EQ(gpu->stream_destroy(stream), kCudaSuccess);
    gate.open();
    EXPECT_EQ(done.get_future().wait_for(20s), std::future_status::ready);
  });
}

TEST(StandinCuda, StreamsWaitForEachOtherByEventsOnly) {
  in_process([](Gpu& gpu) {
    const CudaStream first = gpu.stream(), second = gpu.stream(), third = gpu.stream();
    const CudaEvent event = gpu.event();
    EXPECT_EQ(gpu->event_query(event), kCudaSuccess) << "never recorded";
    Gate gate;
    Log log;
    gate.put_into(gpu, first);
    note(gpu, first, log, 1);
    gpu.check(gpu->event_record(event, first), "cuEventRecord");
    gpu.check(gpu->stream_wait_event(second, event, 0), "cuStreamWaitEvent");
    note(gpu, second, log, 2);
    gpu.wait(third);
    EXPECT_EQ(gpu->event_query(event), kCudaNotReady);
    EXPECT_EQ(gpu->stream_query(second), kCudaNotReady);
    gate.open();
    gpu.wait(second);
    EXPECT_EQ(log, (Log{1, 2}));
    EXPECT_EQ(gpu->event_synchronize(event), kCudaSuccess);
  });
}

// What is waited for is the record that was there when the wait was enqueued.
TEST(StandinCuda, AWaitIsForTheLastRecordBeforeIt) {
  in_process([](Gpu& gpu) {
    const CudaStream first = gpu.stream(), second = gpu.stream();
    const CudaEvent event = gpu.event();
    gpu.check(gpu->event_record(event, first), "cuEventRecord");
    gpu.check(gpu->stream_wait_event(second, event, 0), "cuStreamWaitEvent");
    Gate gate;
    gate.put_into(gpu, first);
    gpu.check(gpu->event_record(event, first), "cuEventRecord");
    gpu.wait(second);
    EXPECT_EQ(gpu->event_query(event), kCudaNotReady);
    gate.open();
    gpu.wait(first);
  });
}

TEST(StandinCuda, TheNullStreamTakesTurnsWithBlockingStreams) {
  in_process([](Gpu& gpu) {
    const CudaStream blocking = gpu.stream(0), free = gpu.stream();
    Gate gate;
    Log log;
    gate.put_into(gpu, blocking);
    note(gpu, blocking, log, 1);
    note(gpu, nullptr, log, 2);
    note(gpu, blocking, log, 3);
    gpu.wait(free);
    EXPECT_EQ(gpu->stream_query(nullptr), kCudaNotReady);
    gate.open();
    gpu.wait(blocking);
    EXPECT_EQ(log, (Log{1, 2, 3}));
  });
}

TEST(StandinCuda, EventsMeasureTime) {
  in_process([](Gpu& gpu) {
    const CudaStream stream = gpu.stream();
    const CudaEvent begin = gpu.event(), end = gpu.event();
    const CudaEvent untimed = gpu.event(kCudaEventDisableTiming);
    const auto sleep = [](void*) { std::this_thread::sleep_for(20ms); };
    gpu.check(gpu->event_record(begin, stream), "cuEventRecord");
    gpu.check(gpu->launch_host_func(stream, sleep, nullptr), "cuLaunchHostFunc");
    gpu.check(gpu->event_record(end, stream), "cuEventRecord");
    gpu.check(gpu->event_record(untimed, stream), "cuEventRecord");
    gpu.wait(stream);
    float milliseconds = 0;
    ASSERT_EQ(gpu->event_elapsed_time(&milliseconds, begin, end), kCudaSuccess);
    EXPECT_GE(milliseconds, 20);
    EXPECT_EQ(gpu->event_elapsed_time(&milliseconds, begin, untimed), kCudaInvalidHandle);
    EXPECT_EQ(gpu->event_destroy(begin), kCudaSuccess);
    EXPECT_EQ(gpu->event_query(begin), kCudaInvalidHandle);
  });
}

TEST(StandinCuda, CopiesGoThroughDeviceMemoryAndStayInTheirAllocations) {
  in_process([](Gpu& gpu) {
    const std::vector<int> values = {1, 2, 3, 4};
    const CudaPointer a = gpu.upload(values), b = gpu.memory(16);
    gpu.check(gpu->memset_d8_async(b, 0, 16, nullptr), "cuMemsetD8Async");
    gpu.check(gpu->memcpy_async(b + 4, a + 8, 8, nullptr), "cuMemcpyAsync");
    EXPECT_EQ(gpu.download<int>(b, 4), (std::vector<int>{0, 3, 4, 0}));
    EXPECT_EQ(gpu->memcpy_async(b + 4, a, 16, nullptr), kCudaInvalidValue);
    EXPECT_EQ(gpu->memset_d8_async(b, 0, 17, nullptr), kCudaInvalidValue);
    EXPECT_EQ(gpu->mem_free(b + 4), kCudaInvalidValue);
    EXPECT_EQ(gpu->mem_free(b), kCudaSuccess);
    EXPECT_EQ(gpu->mem_free(b), kCudaInvalidValue);
    EXPECT_EQ(gpu->mem_free(a), kCudaSuccess);
  });
}

TEST(StandinCuda, PinnedCopiesAreAsynchronous) {
  in_process([](Gpu& gpu) {
    const CudaStream stream = gpu.stream();
    void* pinned = nullptr;
    gpu.check(gpu->mem_host_alloc(&pinned, 8, kCudaHostPortable), "cuMemHostAlloc");
    std::memcpy(pinned, "1234567", 8);
    const CudaPointer device = gpu.memory(8);
    Gate gate;
    gate.put_into(gpu, stream);
    gpu.check(gpu->memcpy_htod_async(device, pinned, 8, stream), "cuMemcpyHtoDAsync");
    std::memcpy(pinned, "abcdefg", 8);
    gate.open();
    gpu.wait(stream);
    EXPECT_STREQ(gpu.download<char>(device, 8).data(), "abcdefg");
    EXPECT_EQ(gpu->mem_free_host(pinned), kCudaSuccess);
  });
}

TEST(StandinCuda, DeviceMemoryFaultsWhenTheHostTouchesIt) {
  in_process([](Gpu& gpu) {
    const auto* device = reinterpret_cast<const volatile char*>(gpu.memory(8));
    EXPECT_DEATH(static_cast<void>(*device), "");
  });
}

void add_to_all(const standin::Launch& launch) {
  const auto pointer = *static_cast<const CudaPointer*>(launch.parameters[0]);
  const int count = *static_cast<const int*>(launch.parameters[1]);
  auto* values = static_cast<int*>(
      standin_host_address(reinterpret_cast<const void*>(pointer), sizeof(int) * count));
  for (int i = 0; i < count; ++i) values[i] += static_cast<int>(launch.grid[0] * launch.block[0]);
}

TEST(StandinCuda, KernelsAreFunctionsByNameAndTheirArgumentsAreCopied) {
  in_process([](Gpu& gpu) {
    static constexpr std::size_t kBytes[] = {sizeof(CudaPointer), sizeof(int)};
    static constexpr standin::Kernel kKernel{"add_to_all", add_to_all, kBytes, 2};
    standin_register_kernel(&kKernel);
    CudaModule module = nullptr;
    gpu.check(gpu->module_load_data(&module, "image"), "cuModuleLoadData");
    CudaFunction function = nullptr;
    EXPECT_EQ(gpu->module_get_function(&function, module, "none"), kCudaNotFound);
    gpu.check(gpu->module_get_function(&function, module, "add_to_all"), "cuModuleGetFunction");
    CudaPointer values = gpu.upload(std::vector<int>{1, 2, 3});
    const CudaPointer kept = values;
    int count = 2;
    void* parameters[] = {&values, &count};
    const CudaStream stream = gpu.stream();
    Gate gate;
    gate.put_into(gpu, stream);
    gpu.check(gpu->launch_kernel(function, 2, 1, 1, 5, 1, 1, 0, stream, parameters, nullptr),
              "cuLaunchKernel");
    values = 0;
    count = 100;
    gate.open();
    gpu.wait(stream);
    EXPECT_EQ(gpu.download<int>(kept, 3), (std::vector<int>{11, 12, 3}));
    EXPECT_EQ(gpu->launch_kernel(function, 1, 1, 1, 1025, 1, 1, 0, stream, parameters, nullptr),
              kCudaInvalidValue);
    EXPECT_EQ(gpu->module_unload(module), kCudaSuccess);
    EXPECT_EQ(gpu->module_unload(module), kCudaInvalidHandle);
  });
}

TEST(StandinCuda, AHostFunctionMayNotCallCuda) {
  in_process([](Gpu& gpu) {
    struct Said {
      const Gpu* gpu;
      CudaResult result = kCudaSuccess;
    } said{&gpu};
    const auto call = [](void* data) {
      auto& s = *static_cast<Said*>(data);
      CudaPointer memory = 0;
      s.result = (*s.gpu)->mem_alloc(&memory, 8);
    };
    gpu.check(gpu->launch_host_func(nullptr, call, &said), "cuLaunchHostFunc");
    gpu.wait(nullptr);
    EXPECT_EQ(said.result, kCudaNotPermitted);
  });
}

TEST(StandinCuda, ACapturingStreamTakesNothing) {
  in_process([](Gpu& gpu) {
    const CudaStream stream = gpu.stream();
    CudaCaptureStatus status = kCudaCaptureBroken;
    gpu.check(gpu->stream_is_capturing(stream, &status), "cuStreamIsCapturing");
    EXPECT_EQ(status, kCudaNotCapturing);
    standin_set_capturing(stream, 1);
    gpu.check(gpu->stream_is_capturing(stream, &status), "cuStreamIsCapturing");
    EXPECT_EQ(status, kCudaCapturing);
    EXPECT_EQ(gpu->event_record(gpu.event(), stream), kCudaCaptureUnsupported);
  });
}

TEST(StandinCuda, AForkedChildHasNoCuda) {
  in_process([](Gpu& gpu) {
    const pid_t child = fork();
    if (child == 0) {
      CudaPointer memory = 0;
      _exit(gpu->mem_alloc(&memory, 8));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), kCudaNotInitialized);
  });
}

}  // namespace
}  // namespace echelon::test
