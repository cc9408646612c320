// SPDX-License-Identifier: Apache-2.0
// How ranks that wait find out why: rank 0 asks all what they are doing and compares the answers.
// The state of one such conversation and what follows from it; pure, so that time comes in as an
// argument and nothing here sends anything.
//
// A rank whose operation makes no progress complains to rank 0. Rank 0 then asks every rank, again
// every kAgain as long as an answer is missing. When all have answered it compares: ranks that
// entered different calls, or nothing but somebody to wait for. A rank that does not answer within
// the limit is silent. Nobody asks anything while nobody waits.
//
// Thread safety: one thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/activity.h"

namespace echelon {

using Time = std::chrono::steady_clock::time_point;

// What the answers of all ranks say.
struct Comparison {
  std::string mismatch;  // "allreduce #17: rank 3 ... entered with count 2048, 7 others with 1024"
  std::string waiting;   // "allreduce #18: waiting for rank 5 ...; it is outside any call, ..."
};

// `reports` by rank; `name` gives "rank 3 (host b, pid 77)".
Comparison compare(const std::vector<Snapshot>& reports,
                   const std::function<std::string(int)>& name);

class Inquiry {
 public:
  static constexpr std::chrono::milliseconds kAgain{1000};  // between two questions

  Inquiry(int ranks, std::chrono::nanoseconds limit) : answers_(ranks), limit_(limit) {}

  // Somebody waits. Begins an inquiry, unless there is one or the last has just ended.
  void complain(Time now);

  bool under_way() const { return began_.has_value(); }
  std::uint64_t number() const { return number_; }

  // True when the ranks that have not answered are to be asked now; then they have been.
  bool ask(Time now);
  void answer(int rank, std::uint64_t number, Snapshot snapshot);

  // The ranks that have been silent for too long.
  std::vector<int> silent(Time now) const;
  // All answers, when none is missing; ends the inquiry.
  std::optional<std::vector<Snapshot>> conclude(Time now);

  // When ask() or silent() will next have something to say.
  Time next() const { return std::min(asked_ + kAgain, *began_ + limit_); }
  void set_limit(std::chrono::nanoseconds limit) { limit_ = limit; }

 private:
  std::vector<std::optional<Snapshot>> answers_;
  std::chrono::nanoseconds limit_;
  std::uint64_t number_ = 0;
  std::optional<Time> began_, ended_;
  Time asked_{};
};

}  // namespace echelon
