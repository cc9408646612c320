// SPDX-License-Identifier: Apache-2.0
// What the functions of the stand-in for libcuda share.
//
// Settings, from the environment:
//   STANDIN_CUDA_DEVICES    number of devices (1)
//   STANDIN_CUDA_VERSION    what cuDriverGetVersion tells (12040)
//   STANDIN_CUDA_BANDWIDTH  of copies between host and device, bytes/s, each direction (no limit)
//   STANDIN_CUDA_LATENCY    of every copy and kernel, s (0)
//   STANDIN_CUDA_KERNELS    library whose kernels modules have (those that a test registers)
//   STANDIN_CUDA_FAIL       errors to give, as in standin_faults.h
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/standin/standin_cuda_stream.h"
#include "tests/standin/standin_faults.h"
#include "transports/cuda/driver.h"

namespace echelon::standin {

struct Device {
  int references = 0;  // of its primary context
  StreamPtr null_stream;
  std::mutex to_host, from_host;  // one copy at a time in each direction
};

struct Event {
  bool timing = true;
  MarkPtr mark;  // of the last record; nullptr: none
};

struct State {
  State();

  const int version;
  const double bandwidth;
  const double latency;
  Faults faults;
  std::vector<Device> devices;             // no more are made
  std::atomic<int> initialized_by = 0;     // process
  std::atomic<int> broken = kCudaSuccess;  // what every call ends with from now on

  std::mutex mutex;  // guards the rest, and `references` and `null_stream` of devices
  std::map<CudaStream, StreamPtr> streams;
  std::map<CudaEvent, Event> events;
  std::set<CudaModule> modules;
};

State& state();

// First thing in every function: what it has to end with instead of doing its work.
CudaResult enter(std::string_view function);

// The device of this thread's current context; -1: there is none.
int current_device();
std::vector<int>& context_stack();  // of this thread: devices
CudaContext context_of(int device);
int device_of(CudaContext context);  // -1: no context

// nullptr: no such stream. NULL is the null stream of the current context.
StreamPtr find_stream(CudaStream stream);

// In order with what else is in the stream and, as it has to, in the null stream or the others.
// Nothing runs on a broken device. invalid handle: no such stream; refused while capturing.
CudaResult enqueue(CudaStream stream, std::function<void()> work, MarkPtr* mark = nullptr);

// The same for what runs on a broken device, too, and is told.
CudaResult enqueue_always(CudaStream stream, std::function<void(bool broken)> work,
                          MarkPtr* mark = nullptr);

// Waits for what was enqueued on a device.
void finish_device(int device);

// Set while a host function runs, which may call nothing of CUDA.
extern thread_local bool in_host_function;

}  // namespace echelon::standin
