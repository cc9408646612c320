// SPDX-License-Identifier: Apache-2.0
// What a call of a trial (way_trial.h) takes one member: the time of its own steps, without
// waiting, and, where it stages nothing itself, what the staging of others costs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace echelon::shm {

enum class Staging : std::uint8_t {
  kInTurn,  // it makes us wait: all of it counts
  kForAll,  // it is done once for all who take: our part of it
  kBeside,  // of two, one copies in while the other copies out: only the first round's, and then
            // all the time until the end, waiting and all
};

// Of a trial of the kernel's copy. Where ranks outnumber the CPUs that they may run on, others
// run while one waits: what counts is what all of them do.
constexpr Staging staging_of_gathers(int members, bool crowded) {
  return members == 2 && !crowded ? Staging::kBeside : Staging::kForAll;
}

class CallTime {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::nanoseconds;

  void add(Time step) { steps_ += step; }

  // What a round's staging took the slowest of the others, of `members` with ourselves.
  void add_staging(Staging how, Time longest, int members, Clock::time_point now) {
    if (how == Staging::kInTurn) steps_ += longest;
    if (how == Staging::kForAll) steps_ += longest / (members - 1);
    if (how == Staging::kBeside && !since_) since_ = now - longest;
  }

  Time until(Clock::time_point end) const { return since_ ? end - *since_ : steps_; }

 private:
  Time steps_{};
  std::optional<Clock::time_point> since_;
};

}  // namespace echelon::shm
