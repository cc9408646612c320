// SPDX-License-Identifier: Apache-2.0
// Whether what the other members load had better be written past the cache. Between dies without a
// common cache it is slow to take a line back that the others have read, or to read one that they
// have just written; which of both, and from which size on, differs by processor. Not asked of the
// topology: ranks move, and virtual machines do not say. Tried, on the calls themselves: some lanes
// make a few calls of one kind either way and compare what they took. All members go the same way
// in such a call, for they count alike. What they find may differ: each says it in its segment
// (team.h), also for those who only write.
//
// Likewise tried, by each member for itself: whether results that do not stay in the caches had
// better bypass them. docs/shm.md, "Past the cache".
//
// Thread safety: none; the engine's thread only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transports/group.h"

namespace echelon::shm {

struct StoreCall {
  GroupAction action;
  std::size_t bytes;
  friend bool operator==(const StoreCall&, const StoreCall&) = default;
};

// Calls that are taken to be alike: sizes up to four times those of the class before (less than
// 16 KiB, ... 64 MiB and more), with additions and without.
inline constexpr int kSizeClasses = 8, kStoreClasses = 2 * kSizeClasses;
int store_class(const StoreCall& call);

enum class Finding : std::uint32_t { kUnknown, kCached, kPast };

// Past the cache must take less than this part of the time. Of what others load: between dies it
// was 0.3 to 0.6, and what is as quick either way should not change from trial to trial. Of
// results: who leaves the cache to others may take a little longer.
inline constexpr double kPaysOthers = 0.9, kPaysResults = 1.05;

// Of one lane.
class StoreTrial {
 public:
  using Time = std::chrono::nanoseconds;

  explicit StoreTrial(int lane, double pays = kPaysOthers) : lane_(lane), pays_(pays) {}

  // For every call that can go either way, when it starts: whether it goes past the cache, when it
  // is part of a trial. Then end() must follow.
  std::optional<bool> begin(const StoreCall& call);

  // What that call took this member; nothing when the way made no difference to it. Returns a
  // finding when the trial is over and there is one.
  Finding end(std::optional<Time> took);

 private:
  struct Class {
    int trials = 0;  // that have ended
    int pause = 0;   // calls until the next one
  };
  int calls_per_way() const;
  bool goes_past() const;

  // Lanes begin in different ways, and so does each trial of a class, so that not always the same
  // way is compared cold.
  const int lane_;
  const double pays_;
  std::array<Class, kStoreClasses> classes_{};
  std::optional<StoreCall> tried_;  // nothing: there is no trial
  int at_ = 0;                      // calls of it so far
  int others_ = 0;                  // calls of other kinds since the last of it
  std::array<Time, 2> least_{};     // by way
};

// What all lanes of a member have found.
class StoreFindings {
 public:
  void note(const StoreCall& call, Finding finding);

  // A Finding in two bits for each class.
  std::uint32_t word() const;

 private:
  struct Class {
    std::uint32_t past = 0;  // a bit for each finding, the last in the lowest
    int noted = 0;
  };
  std::array<Class, kStoreClasses> classes_{};
};

Finding finding_in(std::uint32_t word, const StoreCall& call);

}  // namespace echelon::shm
