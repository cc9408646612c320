// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/device_alloc.h"

#include <map>
#include <memory>
#include <mutex>

#include "transports/cuda/device.h"
#include "transports/cuda/pointer.h"

namespace echelon {
namespace {

struct Allocation {
  std::unique_ptr<DeviceContext> device;
  DeviceBytes memory;
};

struct Registry {
  std::mutex mutex;
  std::map<void*, Allocation> allocations;
};

// Never destroyed: memory may be freed while the process ends.
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

// In a stream that waits for no other.
void zero(const Allocation& allocation, std::size_t bytes) {
  const DeviceContext& device = *allocation.device;
  const OwnedStream stream = make_stream(device);
  const DeviceScope scope(device);
  const CudaPointer memory = cuda_pointer(allocation.memory.get());
  device.check(device.cuda().memset_d8_async(memory, 0, bytes, stream.get()), "cuMemsetD8Async");
  device.check(device.cuda().stream_synchronize(stream.get()), "cuStreamSynchronize");
}

}  // namespace

void* device_alloc(std::size_t bytes) {
  const CudaDriver* cuda = cuda_driver();
  const std::optional<CudaDevice> current = cuda ? current_device(*cuda) : std::nullopt;
  if (!current) throw no_device_memory("CUDA memory");
  Allocation made;
  made.device = std::make_unique<DeviceContext>(*cuda, *current);
  made.memory = allocate_device(*made.device, bytes);
  zero(made, bytes);
  void* const memory = made.memory.get();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.allocations.emplace(memory, std::move(made));
  return memory;
}

bool device_free(void* memory) {
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  const auto freed = all.allocations.extract(memory);
  lock.unlock();  // freeing may take long
  return !freed.empty();
}

}  // namespace echelon
