// SPDX-License-Identifier: Apache-2.0
// Memory for one side of an operation, with guard bytes on both ends.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "tools/perf/device.h"

namespace echelon::perf {

struct BufferKind {
  bool shared = false;       // from ech_alloc
  Device* device = nullptr;  // nullptr: the host's memory
};

// On a GPU, the caller works on a copy in the host's memory.
class GuardedBuffer {
 public:
  // Room for `capacity` bytes at any of the first 64 offsets. Throws Failure when there is no
  // memory.
  GuardedBuffer(std::size_t capacity, BufferKind kind);

  // The next `bytes` bytes, `offset` < 64 off the alignment of 64, with fresh guards around them.
  std::span<std::byte> place(std::size_t bytes, std::size_t offset);

  std::size_t damaged_guards() const;  // in bytes

  // What the library is given for an address of the placed bytes.
  std::byte* argument(std::byte* placed) const;

  // From the copy to the GPU and back, with the guards. Nothing to do on the host.
  void upload();
  void download();

  Device* device() const { return device_; }

 private:
  using Bytes = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  std::span<std::byte> guarded() const;

  const std::size_t capacity_;
  Device* const device_;
  const Bytes memory_;  // of the host
  const Bytes there_;   // on the device; nullptr: none
  std::span<std::byte> placed_;
};

}  // namespace echelon::perf
