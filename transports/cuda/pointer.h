// SPDX-License-Identifier: Apache-2.0
// Whose memory a pointer points to. Thread-safe.
#pragma once

#include <atomic>
#include <string>

#include "lib/base/error.h"

namespace echelon {

// Managed memory counts as a device's; pinned memory is the host's.
enum class MemoryKind { kHost, kDevice };

struct PointerPlace {
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;  // ordinal, of device memory
};

namespace internal {
enum class DriverState { kUnknown, kAbsent, kLoaded };
extern constinit std::atomic<DriverState> driver_state;
PointerPlace ask_driver(const void* pointer);
}  // namespace internal

// Loads the driver's library at the first call in a process. Without one: a load and a branch.
inline PointerPlace place_of(const void* pointer) {
  const auto state = internal::driver_state.load(std::memory_order_relaxed);
  if (state == internal::DriverState::kAbsent) [[likely]]
    return {};
  return internal::ask_driver(pointer);
}

inline MemoryKind kind_of(const void* pointer) { return place_of(pointer).kind; }

// That `what` cannot be used: why CUDA cannot, or that the calling thread has no device.
Error no_device_memory(const std::string& what);

}  // namespace echelon
