// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/pointer.h"

#include "transports/cuda/driver.h"

namespace echelon {
namespace internal {

constinit std::atomic<DriverState> driver_state = DriverState::kUnknown;

// A process that never initialized CUDA has no memory of a device, and the driver refuses to say
// anything. What the driver does not know is the host's.
PointerPlace ask_driver(const void* pointer) {
  const CudaDriver* cuda = cuda_driver();
  driver_state.store(cuda != nullptr ? DriverState::kLoaded : DriverState::kAbsent,
                     std::memory_order_relaxed);
  if (cuda == nullptr) return {};
  unsigned type = 0, managed = 0;
  int device = -1;
  CudaPointerAttribute which[] = {kCudaPointerMemoryType, kCudaPointerIsManaged,
                                  kCudaPointerDevice};
  void* values[] = {&type, &managed, &device};
  const CudaResult result =
      cuda->pointer_get_attributes(3, which, values, reinterpret_cast<CudaPointer>(pointer));
  const bool of_device = type == kCudaMemoryDevice || managed != 0;
  if (result != kCudaSuccess || !of_device) return {};
  return {MemoryKind::kDevice, device};
}

}  // namespace internal

Error no_device_memory(const std::string& what) {
  if (cuda_driver() == nullptr)
    return {ECH_ERR_UNSUPPORTED, what + " cannot be used: " + cuda_absence()};
  return {ECH_ERR_UNSUPPORTED, what + " cannot be used: no CUDA device is current on this thread"};
}

}  // namespace echelon
