// SPDX-License-Identifier: Apache-2.0
// The timeline of one communicator on this rank: what its engines note, the names that callers give
// and the clocks. How the ranks' parts come together: communicator_timeline.cc.
//
// Thread safety: one thread at a time; the recorders as they say.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/engine/recorder.h"
#include "lib/timeline_text.h"

namespace echelon {

// Of every rank, by rank.
using Clocks = std::vector<ClockReading>;

class Timeline {
 public:
  // `path` is of the merged file.
  Timeline(std::string path, int rank) : path_(std::move(path)), rank_(rank) {}

  Recorder& of_host() { return host_; }
  Recorder& of_gpu() { return gpu_; }

  // The number by which records say `name`; 0 when there are too many names.
  std::uint32_t number_of(std::string_view name);

  // From now on the recorders note what happens, until stop(). `zero` is of rank 0's clock.
  void start(Clocks clocks, Nanoseconds zero);
  void stop();
  bool started() const { return !first_.empty(); }

  // `last` is empty when the clocks have not been compared again.
  TracedRank traced(const Clocks& last) const;
  std::uint64_t dropped() const { return host_.dropped() + gpu_.dropped(); }
  ClockReading first_reading() const { return first_.at(rank_); }

  const std::string& path() const { return path_; }
  std::string path_of_part() const { return path_ + ".rank" + std::to_string(rank_); }

 private:
  const std::string path_;
  const int rank_;
  Recorder host_, gpu_;
  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t> numbers_;
  Clocks first_;
  Nanoseconds zero_ = 0;
};

}  // namespace echelon
