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

using Bytes = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

Bytes allocate_shared(std::size_t bytes, ech_memory kind) {
  void* memory = nullptr;
  const ech_status status = ech_alloc(&memory, bytes, kind);
  if (status != ECH_OK)
    throw Failure(fmt::format("ech_alloc: {}: {}", ech_status_name(status), ech_last_error()));
  return {static_cast<std::byte*>(memory), ech_free};
}

Bytes allocate_here(std::size_t bytes, BufferKind kind) {
  if (kind.shared && kind.device == nullptr) return allocate_shared(bytes, ECH_MEMORY_HOST);
  void* const memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) throw Failure("no memory for a buffer of " + bytes_text(bytes));
  return {static_cast<std::byte*>(memory), std::free};
}

Bytes allocate_there(std::size_t bytes, BufferKind kind) {
  if (kind.device == nullptr) return {};
  if (kind.shared) return allocate_shared(bytes, ECH_MEMORY_CUDA);
  return {static_cast<std::byte*>(kind.device->allocate(bytes)),
          [device = kind.device](std::byte* memory) { device->release(memory); }};
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t capacity, BufferKind kind)
    : capacity_(capacity),
      device_(kind.device),
      memory_(allocate_here(capacity + 3 * kGuard, kind)),
      there_(allocate_there(capacity + 3 * kGuard, kind)) {}

std::span<std::byte> GuardedBuffer::guarded() const {
  return {placed_.data() - kGuard, placed_.size() + 2 * kGuard};
}

std::span<std::byte> GuardedBuffer::place(std::size_t bytes, std::size_t offset) {
  assert(bytes <= capacity_ && offset < kGuard);
  placed_ = {memory_.get() + kGuard + offset, bytes};
  std::ranges::fill(guarded().first(kGuard), kGuardByte);
  std::ranges::fill(guarded().last(kGuard), kGuardByte);
  return placed_;
}

std::size_t GuardedBuffer::damaged_guards() const {
  const auto damaged = [](std::span<const std::byte> guard) {
    return kGuard - static_cast<std::size_t>(std::ranges::count(guard, kGuardByte));
  };
  if (placed_.data() == nullptr) return 0;
  return damaged(guarded().first(kGuard)) + damaged(guarded().last(kGuard));
}

std::byte* GuardedBuffer::argument(std::byte* placed) const {
  return there_ ? there_.get() + (placed - memory_.get()) : placed;
}

void GuardedBuffer::upload() {
  if (there_ && placed_.data() != nullptr) device_->upload(argument(guarded().data()), guarded());
}

void GuardedBuffer::download() {
  if (there_ && placed_.data() != nullptr) device_->download(guarded(), argument(guarded().data()));
}

}  // namespace echelon::perf
