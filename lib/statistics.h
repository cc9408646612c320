// SPDX-License-Identifier: Apache-2.0
// What a rank notes about its own operations, and what all ranks' notes of a period say together.
// Pure but for the clocks of its callers.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "echelon/echelon.h"
#include "lib/engine/link_meter.h"
#include "lib/fabric/layout.h"
#include "lib/plan/slow_links.h"

namespace echelon {

// What a rank tells the others at the end of a period. Numbers only, so that it can be gathered as
// it lies in memory by ranks of one build.
struct Notes {
  static constexpr std::size_t kHosts = 4;

  double waited = 0;   // s in timed operations
  double absent = 0;   // s outside of Echelon while operations were under way
  double starved = 0;  // s in which its thread wanted a core and others had them
  double shared = 0;   // 1: several operations were under way at once
  struct {
    double host = -1;  // index; -1: none
    double bytes = 0, seconds = 0;
  } sent[kHosts];  // to other hosts; of more, those that took longest
};

class NoteBook {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Alike on all ranks, for they depend on nothing but what the ranks have called.
  bool period_is_over() const { return weight_ >= kWeight; }
  static bool is_timed(ech_collective collective, std::size_t bytes, std::uint64_t sequence) {
    const bool all_wait_for_all = collective != ECH_BROADCAST && collective != ECH_REDUCE;
    return all_wait_for_all && (bytes >= kBytesPerWeight || sequence % kTimedOneOf == 0);
  }

  // The first of a period that is large enough.
  bool is_metered(std::size_t bytes) const { return bytes > kSmallestMetered && !metered_; }
  // Before it is called. `gave_way`: the time so far in which the thread had no core by choice.
  void begin_metering(std::chrono::nanoseconds gave_way);

  // A collective was called.
  void called(std::size_t bytes, bool timed) {
    weight_ += 1 + bytes / kBytesPerWeight;
    timed_ += timed ? 1 : 0;
    metered_ = metered_ || is_metered(bytes);
    shared_ = shared_ || under_way_ > 0;
  }
  // What was called is nonblocking, and has been waited for.
  void started() { ++under_way_; }
  void ended() { --under_way_; }
  void waited(std::chrono::nanoseconds time) { waited_ += time; }

  // The caller comes to Echelon, or goes while operations are under way.
  void comes() {
    if (left_ != Time()) came_back();
  }
  void goes() { left_ = std::chrono::steady_clock::now(); }

  std::uint64_t timed() const { return timed_; }  // of this period
  // Ends it. `gave_way` as before.
  Notes close_period(const std::vector<LinkMeter::Total>& sent, std::chrono::nanoseconds gave_way);

 private:
  static constexpr std::uint64_t kWeight = 1024;
  static constexpr std::size_t kBytesPerWeight = 64 << 10;
  static constexpr std::uint64_t kTimedOneOf = 16;
  static constexpr std::size_t kSmallestMetered = 8 << 20;

  void came_back();

  std::uint64_t weight_ = 0, timed_ = 0;
  std::chrono::nanoseconds waited_{}, absent_{};
  bool metered_ = false;       // an operation of this period
  double starved_before_ = 0;  // s of the thread, before that, but for what it gave way
  int under_way_ = 0;
  bool shared_ = false;
  Time left_{};  // Time(): the caller is here, or nothing is under way
};

// What the notes of all ranks say, by rank.
struct Findings {
  std::uint64_t periods = 0;
  std::uint64_t timed = 0;
  std::vector<double> lateness;    // s per timed operation, by rank; empty: none was timed
  std::vector<LinkRate> rates;     // of links between hosts
  std::vector<double> throughput;  // the best rate of each host with any other, 0: not measured
};

Findings evaluate(std::span<const Notes> notes, std::uint64_t timed, const Layout& layout);

// With struct_size, latenesses and throughputs as the caller gave them; fills the arrays.
void report(const Findings& findings, const Layout& layout, ech_stats& stats);

}  // namespace echelon
