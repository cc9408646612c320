// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "echelon/echelon.h"
#include "tools/perf/comm.h"
#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

constexpr std::size_t kGuard = 64;
constexpr std::size_t kPage = 4096;
constexpr std::byte kGuardByte{0xa5};

using Release = void (*)(void*);

void release_shared(void* memory) { ech_free(memory); }

std::unique_ptr<std::byte, Release> allocate(std::size_t bytes, bool shared) {
  void* memory = nullptr;
  if (shared) {
    const ech_status status = ech_alloc(&memory, bytes, ECH_MEMORY_HOST);
    if (status != ECH_OK)
      throw Failure(fmt::format("ech_alloc: {}: {}", ech_status_name(status), ech_last_error()));
    return {static_cast<std::byte*>(memory), release_shared};
  }
  memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) throw Failure("no memory for a buffer of " + bytes_text(bytes));
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t capacity, bool shared)
    : capacity_(capacity), memory_(allocate(capacity + 3 * kGuard, shared)) {}

std::span<std::byte> GuardedBuffer::place(std::size_t bytes, std::size_t offset) {
  assert(bytes <= capacity_ && offset < kGuard);
  placed_ = {memory_.get() + kGuard + offset, bytes};
  std::fill_n(placed_.data() - kGuard, kGuard, kGuardByte);
  std::fill_n(placed_.data() + bytes, kGuard, kGuardByte);
  return placed_;
}

std::size_t GuardedBuffer::damaged_guards() const {
  const auto damaged = [](const std::byte* guard) {
    return kGuard - static_cast<std::size_t>(std::count(guard, guard + kGuard, kGuardByte));
  };
  if (placed_.data() == nullptr) return 0;
  return damaged(placed_.data() - kGuard) + damaged(placed_.data() + placed_.size());
}

}  // namespace echelon::perf
