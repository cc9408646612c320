// SPDX-License-Identifier: Apache-2.0
// Which of two ways to make calls is the quicker here: tried on the calls themselves. Some lanes
// make a few calls of one kind either way and compare what they took. Nothing is asked of the
// topology: ranks move, and virtual machines do not say.
//
// Tried so are
//   whether what other members load had better be written past the cache. Between dies without a
//   common cache it is slow to take a line back that the others have read, or to read one that they
//   have just written; which of both, and from which size on, differs by processor;
//   whether the kernel had better copy what is gathered, once, than two members through slots.
// All members go the same way in such a call, for they count alike. What they find may differ: each
// says it in its segment (team.h), also for those who only write.
//
// And, by each member for itself, whether large results had better bypass the caches. docs/shm.md,
// "Past the cache" and "The kernel's copy".
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

struct TrialCall {
  GroupAction action;
  std::size_t bytes;       // of the call; where results are tried, as_allreduce() (choose.h)
  bool one_owner = false;  // of an allgather: a broadcast
  friend bool operator==(const TrialCall&, const TrialCall&) = default;
};

// Calls that are taken to be alike: sizes up to four times those of the class before (less than
// 16 KiB, ... 64 MiB and more), of calls with additions, allgathers, and broadcasts.
inline constexpr int kSizeClasses = 8, kTrialClasses = 3 * kSizeClasses;
int trial_class(const TrialCall& call);

// The least bytes of a class of sizes, but of the first, which begins at 1.
constexpr std::size_t least_of_class(int of_sizes) { return std::size_t{4} << 10 << 2 * of_sizes; }

// After so many calls of a kind on one lane, one after another, all that is tried of it is found.
int calls_until_found();

// That the other way pays, or not.
enum class Finding : std::uint8_t { kUnknown, kUsual, kOther };

// A Finding in two bits for each class.
Finding finding_in(std::uint64_t word, int at_class);
std::uint64_t word_of(Finding finding, int at_class);

// What earlier trials have found, which is gone by until later ones say otherwise. Equal on all
// members of a group, or their trials run out of step.
struct KnownWays {
  std::uint64_t stores = 0, reading = 0, results = 0;
  friend bool operator==(const KnownWays&, const KnownWays&) = default;
};

// The other way must take less than this part of the time. Past the cache, what others load:
// between dies it was 0.3 to 0.6, and what is as quick either way should not change from trial to
// trial. Of results: who leaves the cache to others may take a little longer, but who could keep
// them there must gain as much. The kernel's copy: it leaves the owner of what it copies nothing
// to do.
inline constexpr double kPaysOthers = 0.9, kPaysReading = 0.95;
inline constexpr double kPaysResults = 1.05, kPaysResultsThatFit = 0.9;

// Of one lane.
class WayTrial {
 public:
  using Time = std::chrono::nanoseconds;

  // A class that is `known` is tried again after as many calls as one that has been tried here.
  explicit WayTrial(int lane, std::uint64_t known = 0);

  // For every call that can go either way, when it starts: whether it goes the other way, when it
  // is part of a trial. Then end() must follow.
  std::optional<bool> begin(const TrialCall& call);

  // What that call took this member; nothing when the way made no difference to it. Returns a
  // finding when the trial is over and there is one: the other way, where it took less than this
  // part of the time.
  Finding end(std::optional<Time> took, double pays);

 private:
  struct Class {
    int trials = 0;  // that have ended
    int pause = 0;   // calls until the next one
  };
  int calls_per_way() const;
  bool goes_other() const;

  // Lanes begin in different ways, and so does each trial of a class, so that not always the same
  // way is compared cold.
  const int lane_;
  std::array<Class, kTrialClasses> classes_{};
  std::optional<TrialCall> tried_;  // nothing: there is no trial
  int at_ = 0;                      // calls of it so far
  int others_ = 0;                  // calls of other kinds since the last of it
  std::array<Time, 2> least_{};     // by way
};

// What all lanes of a member have found, beside what was known: that counts as two findings.
class Findings {
 public:
  explicit Findings(std::uint64_t known = 0);

  void note(const TrialCall& call, Finding finding);

  // A Finding for each class; and only for those in which something was found here.
  std::uint64_t word() const;
  std::uint64_t own_word() const;

 private:
  struct Class {
    std::uint32_t other = 0;  // a bit for each finding, the last in the lowest
    int noted = 0;
    bool own = false;
    Finding finding() const;
  };
  std::array<Class, kTrialClasses> classes_{};
};

}  // namespace echelon::shm
