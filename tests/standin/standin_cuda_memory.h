// SPDX-License-Identifier: Apache-2.0
// What was allocated. Device memory lies at addresses that fault when a CPU touches them, as real
// device memory does, and is mapped a second time where the stand-in itself reads and writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace echelon::standin {

enum class Kind { kDevice, kManaged, kPinned };

struct Allocation {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;  // as asked for
  Kind kind = Kind::kDevice;
  int device = 0;
  char* mapped = nullptr;  // where it can be touched
};

class Memory {
 public:
  std::uintptr_t allocate(std::size_t bytes, Kind kind, int device);  // 0: there is none
  bool free(std::uintptr_t address, bool pinned);                     // false: no such allocation
  std::optional<Allocation> find(std::uintptr_t address) const;       // that it lies in

  // Where `bytes` from `address` on can be touched; nullptr when they leave their allocation.
  // Memory that was not allocated here is the host's.
  char* reach(std::uintptr_t address, std::size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> allocations_;
};

Memory& memory();

}  // namespace echelon::standin
