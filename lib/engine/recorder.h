// SPDX-License-Identifier: Apache-2.0
// What an engine does, noted while it does it: records of fixed size, in memory of bounded size.
// When that is full, what comes is only counted.
//
// Thread safety: add() and fails() by the thread that drives the engine, set_on_failure() before
// it does, everything else by any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "lib/base/activity.h"
#include "lib/engine/program.h"

namespace echelon {

using Nanoseconds = std::int64_t;  // of the steady clock of this rank's host

inline Nanoseconds nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// An operation that has ended.
struct OperationRecord {
  Nanoseconds called = 0;
  Nanoseconds began = 0;  // with its first segment; 0: it never did
  Nanoseconds ended = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;        // per block
  const Program* program = nullptr;  // null: it never had one
  std::uint32_t name = 0;            // by which the caller calls it; 0: by none
  std::uint32_t segments = 1;
  ech_status status = ECH_OK;
  std::uint8_t element_size = 1;
  bool direct = false;  // it was one call of the group and nothing else: it has no other record
};

// A run of a segment's steps.
struct PhaseRecord {
  enum Kind : std::int16_t { kCopy = Step::kNoPhase, kPack = -2, kDeliver = -3, kNone = -4 };

  Nanoseconds began = 0, ended = 0;
  const Program* program = nullptr;
  std::uint64_t sequence = 0;  // of the operation
  std::uint64_t elements = 0;  // of the segment, per block
  std::uint32_t segment = 0;
  std::int16_t phase = kNone;  // in Program::phases, or what else it was
  std::uint8_t element_size = 1;
};

// Written by one thread, read by any.
template <typename T>
class BoundedLog {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // The memory is only used as far as it is written.
  explicit BoundedLog(std::size_t capacity)
      : capacity_(capacity),
        memory_(std::make_unique_for_overwrite<std::byte[]>(capacity * sizeof(T))) {}

  void add(const T& record) {
    const std::size_t n = size_.load(std::memory_order_relaxed);
    if (n == capacity_) {
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    new (memory_.get() + n * sizeof(T)) T(record);
    size_.store(n + 1, std::memory_order_release);
  }

  std::span<const T> records() const {
    const std::size_t n = size_.load(std::memory_order_acquire);
    if (n == 0) return {};
    return {std::launder(reinterpret_cast<const T*>(memory_.get())), n};
  }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  const std::size_t capacity_;
  const std::unique_ptr<std::byte[]> memory_;
  std::atomic<std::size_t> size_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
};

class Recorder {
 public:
  static constexpr std::size_t kOperations = std::size_t{128} << 10;  // 15 MiB
  static constexpr std::size_t kPhases = std::size_t{256} << 10;      // 14 MiB

  explicit Recorder(std::size_t operations = kOperations, std::size_t phases = kPhases)
      : operations_(operations), phases_(phases) {}

  // Until then, and after stop(), nothing is noted.
  void start() { on_.store(true, std::memory_order_relaxed); }
  void stop() { on_.store(false, std::memory_order_relaxed); }

  void add(const OperationRecord& record) {
    if (on_.load(std::memory_order_relaxed)) operations_.add(record);
  }
  void add(const PhaseRecord& record) {
    if (on_.load(std::memory_order_relaxed)) phases_.add(record);
  }

  // What to do when the engine has failed, after it has ended everything. Must not throw.
  void set_on_failure(std::function<void()> action) { on_failure_ = std::move(action); }
  void fails() const {
    if (on_failure_) on_failure_();
  }

  std::span<const OperationRecord> operations() const { return operations_.records(); }
  std::span<const PhaseRecord> phases() const { return phases_.records(); }
  std::uint64_t dropped() const { return operations_.dropped() + phases_.dropped(); }

 private:
  BoundedLog<OperationRecord> operations_;
  BoundedLog<PhaseRecord> phases_;
  std::atomic<bool> on_ = false;
  std::function<void()> on_failure_;
};

}  // namespace echelon
