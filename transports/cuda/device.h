// SPDX-License-Identifier: Apache-2.0
// The GPU of a rank: its context, and owners of what is made in it.
//
// Thread safety: all functions from any thread, as those of CUDA.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "transports/cuda/driver.h"

namespace echelon {

// The primary context of a device, which every CUDA runtime of the process uses as well.
class DeviceContext {
 public:
  // Throws ECH_ERR_INVALID (no such device), ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM.
  DeviceContext(const CudaDriver& cuda, CudaDevice device);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;

  const CudaDriver& cuda() const { return cuda_; }
  CudaDevice device() const { return device_; }
  CudaContext context() const { return context_; }
  int multiprocessors() const { return multiprocessors_; }

  void check(CudaResult result, const char* call) const { cuda_check(cuda_, result, call); }

 private:
  const CudaDriver& cuda_;
  const CudaDevice device_;
  CudaContext context_ = nullptr;
  int multiprocessors_ = 1;
};

// The device whose context is current on the calling thread; none before the program has used CUDA
// there.
std::optional<CudaDevice> current_device(const CudaDriver& cuda);

// Makes a context current on this thread as long as it lives. CUDA calls need one.
class DeviceScope {
 public:
  explicit DeviceScope(const DeviceContext& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;

 private:
  const CudaDriver& cuda_;
};

// Ends what was made in a context, which must still exist.
struct DeviceDeleter {
  const DeviceContext* device = nullptr;
  void operator()(CudaStreamObject* stream) const noexcept;
  void operator()(CudaEventObject* event) const noexcept;
};
struct DeviceBytesDeleter {
  const DeviceContext* device = nullptr;
  void operator()(std::byte* memory) const noexcept;
};
struct PinnedBytesDeleter {
  const DeviceContext* device = nullptr;
  void operator()(std::byte* memory) const noexcept;
};
using OwnedStream = std::unique_ptr<CudaStreamObject, DeviceDeleter>;
using OwnedEvent = std::unique_ptr<CudaEventObject, DeviceDeleter>;
using DeviceBytes = std::unique_ptr<std::byte, DeviceBytesDeleter>;
using PinnedBytes = std::unique_ptr<std::byte, PinnedBytesDeleter>;

// A stream that waits for no other one, of the highest priority: what a collective does is waited
// for by other machines. Errors of these: ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM.
OwnedStream make_stream(const DeviceContext& device);
OwnedEvent make_event(const DeviceContext& device);  // without a time
DeviceBytes allocate_device(const DeviceContext& device, std::size_t bytes);
// Host memory that the GPU reads and writes under the same address.
PinnedBytes allocate_pinned(const DeviceContext& device, std::size_t bytes);

inline CudaPointer cuda_pointer(const void* memory) {
  return reinterpret_cast<CudaPointer>(memory);
}

}  // namespace echelon
