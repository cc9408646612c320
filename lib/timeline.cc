// SPDX-License-Identifier: Apache-2.0
#include "lib/timeline.h"

namespace echelon {
namespace {

constexpr std::size_t kMostNames = std::size_t{64} << 10;
constexpr int kGpuRows = 500;  // of a rank, after those of host memory

// Not in the middle of a character of UTF-8.
std::string_view shortened(std::string_view name) {
  if (name.size() <= kLongestName) return name;
  std::size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return name.substr(0, end);
}

}  // namespace

std::uint32_t Timeline::number_of(std::string_view name) {
  std::string key(shortened(name));
  if (key.empty()) return 0;
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  if (names_.size() > kMostNames) return 0;
  const auto number = static_cast<std::uint32_t>(names_.size());
  names_.push_back(key);
  numbers_.emplace(std::move(key), number);
  return number;
}

void Timeline::start(Clocks clocks, Nanoseconds zero) {
  first_ = std::move(clocks);
  zero_ = zero;
  host_.start();
  gpu_.start();
}

void Timeline::stop() {
  host_.stop();
  gpu_.stop();
}

TracedRank Timeline::traced(const Clocks& last) const {
  const ClockReading& first = first_.at(rank_);
  TracedRank traced;
  traced.rank = rank_;
  traced.engines = {{&host_, "", 0}, {&gpu_, "gpu ", kGpuRows}};
  traced.names = names_;
  traced.clock = CommonClock(first, last.empty() ? first : last.at(rank_), zero_);
  return traced;
}

}  // namespace echelon
