// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for callers. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace echelon {

// Zeroed memory of the device that is current on the calling thread. Throws ECH_ERR_UNSUPPORTED
// when there is none, ECH_ERR_NO_MEMORY.
void* device_alloc(std::size_t bytes);

// False when `memory` is not from device_alloc(). Waits for what the device is doing, as CUDA does.
bool device_free(void* memory);

// What has been allocated and not freed, by address, for who keeps something of it.
struct DeviceBlock {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  // no other block ever has it
};
std::vector<DeviceBlock> device_blocks();

// How often one has been allocated or freed. Takes no lock.
std::uint64_t device_blocks_changes();

// As long as it lives, `freed` is called before a block is freed, by the thread that frees. It must
// not call what is in this file.
class DeviceFreeWatch {
 public:
  explicit DeviceFreeWatch(std::function<void(std::uint64_t number)> freed);
  ~DeviceFreeWatch();
  DeviceFreeWatch(const DeviceFreeWatch&) = delete;

 private:
  std::uint64_t id_ = 0;
};

}  // namespace echelon
