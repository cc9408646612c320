// SPDX-License-Identifier: Apache-2.0
// A device for a test, a real one or the stand-in, by the library's own loader. Failures throw.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "transports/cuda/driver.h"

namespace echelon::test {

// What the stand-in has beyond CUDA's functions; nullptr with a real driver. Calls nothing in it:
// it reads its settings then, and may not be forked any more.
inline void* standin_symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

inline bool on_standin() { return standin_symbol("standin_break") != nullptr; }

// The primary context of a device, current for as long as the object lives. What is made here and
// not destroyed by the test lasts until the process ends.
class Gpu {
 public:
  explicit Gpu(int ordinal = 0) : cuda_(cuda_driver()) {
    if (cuda_ == nullptr) throw std::runtime_error(cuda_absence());
    check(cuda_->init(0), "cuInit");
    check(cuda_->device_get(&device_, ordinal), "cuDeviceGet");
    CudaContext context = nullptr;
    check(cuda_->device_primary_ctx_retain(&context, device_), "cuDevicePrimaryCtxRetain");
    check(cuda_->ctx_push_current(context), "cuCtxPushCurrent");
  }
  ~Gpu() {
    cuda_->ctx_pop_current(nullptr);
    cuda_->device_primary_ctx_release(device_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const CudaDriver* operator->() const { return cuda_; }
  const CudaDriver& operator*() const { return *cuda_; }
  void check(CudaResult result, const char* call) const { cuda_check(*cuda_, result, call); }

  CudaStream stream(unsigned flags = kCudaStreamNonBlocking) const {
    CudaStream made = nullptr;
    check(cuda_->stream_create_with_priority(&made, flags, 0), "cuStreamCreateWithPriority");
    return made;
  }

  CudaEvent event(unsigned flags = 0) const {
    CudaEvent made = nullptr;
    check(cuda_->event_create(&made, flags), "cuEventCreate");
    return made;
  }

  CudaPointer memory(std::size_t bytes) const {
    CudaPointer made = 0;
    check(cuda_->mem_alloc(&made, bytes), "cuMemAlloc");
    return made;
  }

  template <typename T>
  CudaPointer upload(const std::vector<T>& values) const {
    const CudaPointer to = memory(values.size() * sizeof(T));
    check(cuda_->memcpy_htod_async(to, values.data(), values.size() * sizeof(T), nullptr),
          "cuMemcpyHtoDAsync");
    wait(nullptr);
    return to;
  }

  template <typename T>
  std::vector<T> download(CudaPointer from, std::size_t count) const {
    std::vector<T> values(count);
    check(cuda_->memcpy_dtoh_async(values.data(), from, count * sizeof(T), nullptr),
          "cuMemcpyDtoHAsync");
    wait(nullptr);
    return values;
  }

  void wait(CudaStream stream) const {
    check(cuda_->stream_synchronize(stream), "cuStreamSynchronize");
  }

 private:
  const CudaDriver* const cuda_;
  CudaDevice device_ = 0;
};

// Something in a stream that does not end until it is opened.
class Gate {
 public:
  void put_into(const Gpu& gpu, CudaStream stream) {
    const auto wait = [](void* data) { static_cast<Gate*>(data)->opened_.wait(); };
    gpu.check(gpu->launch_host_func(stream, wait, this), "cuLaunchHostFunc");
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

}  // namespace echelon::test
