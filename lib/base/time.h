// SPDX-License-Identifier: Apache-2.0
// Seconds, as people give them, and durations of a clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace echelon {

inline constexpr double kForever = 1e9;  // s, some 30 years; much more does not fit a clock

// At most kForever, also for what is no number.
inline std::chrono::nanoseconds from_seconds(double seconds) {
  const double bounded = seconds < kForever ? seconds : kForever;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(bounded * 1e9));
}

inline double to_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace echelon
