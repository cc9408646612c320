// SPDX-License-Identifier: Apache-2.0
// Memory for one side of an operation, with guard bytes on both ends.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace echelon::perf {

class GuardedBuffer {
 public:
  // Room for `capacity` bytes at any of the first 64 offsets; from ech_alloc when `shared`.
  // Throws Failure when there is no memory.
  GuardedBuffer(std::size_t capacity, bool shared);

  // The next `bytes` bytes, `offset` < 64 off the alignment of 64, with fresh guards around them.
  std::span<std::byte> place(std::size_t bytes, std::size_t offset);

  std::size_t damaged_guards() const;  // in bytes

 private:
  const std::size_t capacity_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::span<std::byte> placed_;
};

}  // namespace echelon::perf
