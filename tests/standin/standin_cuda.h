// SPDX-License-Identifier: Apache-2.0
// What tests ask of the stand-in for libcuda.so.1 beyond CUDA's own functions.
#pragma once

#include <cstddef>

#include "transports/cuda/driver.h"

namespace echelon::standin {

// A kernel, run once for the whole grid by the thread of the stream. parameters[i] points to a copy
// of argument i; what is a pointer into device memory goes through standin_host_address.
struct Launch {
  unsigned grid[3];
  unsigned block[3];
  void** parameters;
};

// What cuModuleGetFunction finds by `name`, in any module.
struct Kernel {
  const char* name;
  void (*run)(const Launch& launch);
  const std::size_t* parameter_bytes;
  std::size_t parameters;
};

}  // namespace echelon::standin

#pragma GCC visibility push(default)
extern "C" {

// `kernel` and what it points to stay as they are.
void standin_register_kernel(const echelon::standin::Kernel* kernel);

// Where the CPU finds what `pointer` points to; nullptr when `bytes` leave the allocation.
void* standin_host_address(const void* pointer, std::size_t bytes);

// The ordinal of the device whose memory `pointer` points to; -1: none.
int standin_device_of(const void* pointer);

// `work` runs in the stream's order, as a kernel does, and once whatever happens: `broken` is set
// when the device is, and nothing may be done but clean up.
echelon::CudaResult standin_enqueue(echelon::CudaStream stream,
                                    void (*work)(void* data, bool broken), void* data);

// As a stream is between cudaStreamBeginCapture and cudaStreamEndCapture.
echelon::CudaResult standin_set_capturing(echelon::CudaStream stream, int on);

// What a kernel that fails leaves behind: every later call ends with `result`, and nothing runs.
void standin_break(echelon::CudaResult result);
}
#pragma GCC visibility pop
