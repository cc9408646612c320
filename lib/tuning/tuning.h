// SPDX-License-Identifier: Apache-2.0
// What `echelon tune` has measured: which plan was quickest for which operations, and on which
// machines. docs/plans.md describes the file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/plan/choose.h"
#include "lib/tuning/machine_key.h"

namespace echelon {

// For operations of more than `above` and up to `up_to` bytes of the whole vector. A class of sizes
// between two powers of two is served by what holds for its largest size.
struct TunedPlan {
  ech_collective collective = ECH_ALLREDUCE;
  std::size_t above = 0, up_to = 0;
  MeasuredPlan plan;
  int samples = 0;

  friend bool operator==(const TunedPlan&, const TunedPlan&) = default;
};

// Which ways calls on the shared memory of a host take (docs/shm.md).
struct TunedSharedMemory {
  static constexpr std::size_t kNever = SIZE_MAX;

  // From how many bytes on. Nothing where it was not measured, or the built-in size does as well.

  std::optional<std::size_t> one_shot;  // the largest allreduce in one shot; 0: none
  std::optional<std::size_t> read;      // the smallest reduction that the kernel copies
  std::optional<std::size_t> direct;    // from here on shared buffers are read in place

  struct Key {
    std::string_view name;
    std::optional<std::size_t> TunedSharedMemory::*value;
  };
  static const std::array<Key, 3> kKeys;

  // What was found by trying both ways: two bits for each class of calls, 0 not known, 1 the usual
  // way, 2 the other one. Classes are of kSizes sizes each for additions, allgathers, broadcasts.
  std::uint64_t stores = 0;       // the other way: past the cache
  std::uint64_t kernel_copy = 0;  // by the kernel
  std::uint64_t results = 0;      // past the cache

  static constexpr int kSizes = 8;
  static constexpr std::array<std::string_view, 3> kCalls = {"additions", "allgathers",
                                                             "broadcasts"};
  struct TriedKey {
    std::string_view name;
    std::uint64_t TunedSharedMemory::*found;
  };
  static const std::array<TriedKey, 3> kTriedKeys;

  friend bool operator==(const TunedSharedMemory&, const TunedSharedMemory&) = default;
};

struct Tuning {
  MachineKey machine;
  TunedSharedMemory shared_memory;
  std::vector<TunedPlan> plans;  // of each collective, ascending and apart

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

inline constexpr int kTuningVersion = 1;

// nullptr: nothing was measured for it.
const TunedPlan* find_tuned(std::span<const TunedPlan> plans, ech_collective collective,
                            std::size_t bytes);

// Whether some plan needs messages between ranks of one host.
bool needs_messages(std::span<const TunedPlan> plans);

// Throws ECH_ERR_INVALID that names the first plan that cannot be made on `shape`.
void require_possible(const Tuning& tuning, const Shape& shape);

// ---- as a file

// Throws ECH_ERR_INVALID, "file:line: ...". `file` is only used in messages.
Tuning parse_tuning(std::string_view text, std::string_view file);

// TOML that parses back to the same; times have been rounded to nanoseconds before.
std::string to_toml(const Tuning& tuning);

}  // namespace echelon
