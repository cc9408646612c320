// SPDX-License-Identifier: Apache-2.0
// What engines have noted, as events in the JSON of Chrome's trace format, which Perfetto reads.
// Pure: docs/timeline.md says what is in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/engine/recorder.h"

namespace echelon {

inline constexpr std::size_t kLongestEvent = 3840;  // bytes of one event, at most
inline constexpr std::size_t kLongestName = 128;    // bytes of a name that a caller gives

// What this rank's clock is behind rank 0's, as it was found at one time.
struct ClockReading {
  Nanoseconds at = 0;      // of this rank's clock
  Nanoseconds behind = 0;  // to be added to it
  Nanoseconds error = 0;   // that number is right within
};

// From this rank's clock to what all ranks count by: rank 0's, from its beginning.
class CommonClock {
 public:
  CommonClock() = default;
  CommonClock(const ClockReading& first, const ClockReading& last, Nanoseconds zero)
      : first_(first), last_(last), zero_(zero) {}

  double microseconds(Nanoseconds local) const;
  Nanoseconds error() const { return std::max(first_.error, last_.error); }

 private:
  ClockReading first_, last_;  // between them clocks may have drifted apart evenly
  Nanoseconds zero_ = 0;
};

// One engine of a rank.
struct TracedEngine {
  const Recorder* recorder = nullptr;
  std::string prefix;  // of its rows: "", or "gpu "
  int first_row = 0;
};

struct TracedRank {
  int rank = 0;
  std::vector<TracedEngine> engines;
  std::span<const std::string> names;  // by number, those that callers gave; 0: none
  CommonClock clock;
};

using EventSink = std::function<void(std::string_view event)>;  // one JSON object

// All events of a rank but for what trace_head() says, in no order.
void write_events(const TracedRank& rank, const EventSink& sink);

// What is said of a rank at the head of a file.
struct RankAbout {
  int rank = 0;
  std::string name;  // "rank 3 on hostB (pid 12)"
  ClockReading clock;
  std::uint64_t dropped = 0;  // records for which there was no room
};

// The beginning of a file about `ranks`, of which there is one at least. Every event that follows
// comes after kBetweenEvents, and kTraceEnd after the last.
std::string trace_head(std::span<const RankAbout> ranks, int size);
inline constexpr std::string_view kBetweenEvents = ",\n";
inline constexpr std::string_view kTraceEnd = "\n]}\n";

}  // namespace echelon
