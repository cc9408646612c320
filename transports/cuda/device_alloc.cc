// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/device_alloc.h"

#include <atomic>
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
  DeviceBlock block;
};

struct Registry {
  std::mutex mutex;
  std::map<void*, Allocation> allocations;
  std::map<std::uint64_t, std::function<void(std::uint64_t)>> watches;
  std::uint64_t watches_made = 0;
  std::atomic<std::uint64_t> changes = 0;
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
  made.block = {made.memory.get(), bytes, all.changes + 1};
  all.allocations.emplace(memory, std::move(made));
  ++all.changes;
  return memory;
}

bool device_free(void* memory) {
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  const auto freed = all.allocations.extract(memory);
  if (!freed.empty()) {
    ++all.changes;
    for (const auto& [id, tell] : all.watches) tell(freed.mapped().block.number);
  }
  lock.unlock();  // freeing may take long
  return !freed.empty();
}

std::vector<DeviceBlock> device_blocks() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<DeviceBlock> blocks;
  for (const auto& [memory, allocation] : all.allocations) blocks.push_back(allocation.block);
  return blocks;
}

std::uint64_t device_blocks_changes() { return registry().changes; }

DeviceFreeWatch::DeviceFreeWatch(std::function<void(std::uint64_t number)> freed) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  id_ = ++all.watches_made;
  all.watches.emplace(id_, std::move(freed));
}

DeviceFreeWatch::~DeviceFreeWatch() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.watches.erase(id_);
}

}  // namespace echelon
