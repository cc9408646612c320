// SPDX-License-Identifier: Apache-2.0
// How far the other members are: whether what one of them has just written comes from its cache, or
// as slowly as from memory, as between dies that share no cache. Lines that both sides have had are
// slow to write there, too (each store has to take them back), and what others shall read had
// better go past the cache. Measured, not asked of the topology: ranks move, and virtual machines
// do not say.
//
// Now and then a member writes a probe for one of the others, the first half by way of its cache
// and the second past it, and that one compares how long reading them takes. Where no store can
// bypass the cache (lib/reduce/kernels.h), both halves are alike, and nobody is far.
//
// Thread safety: none; the engine's thread only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace echelon::shm {

class Distance {
 public:
  Distance(int self, int members) : self_(self), others_(members - 1) {}

  bool due() const { return others_ > 0 && Clock::now() >= next_; }

  // Writes a probe (kProbeBytes of segment.h) and returns its number, never 0. It is for one of the
  // others, each as often, in no order: who is next to each other may be near.
  std::uint32_t write(std::byte* probe);

  // Reads the probe of that number, and returns true, when it is for us. 0 is none.
  bool read(int member, std::uint32_t number, const std::byte* probe);

  // What reading the halves of a probe took. Nothing that a clock can tell does not count.
  struct Sample {
    using Time = std::chrono::nanoseconds;
    Time cached, streamed;
  };
  void note(const Sample& sample);

  bool known() const { return noted_ >= kEnough; }

  // Whether a third or more of what was read lately came from far.
  bool far() const { return far_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kKept = 16;   // samples, of all others
  static constexpr std::size_t kEnough = 4;  // to say anything

  const int self_;
  const int others_;
  std::array<Sample, kKept> samples_{};  // the last, in any order
  std::size_t noted_ = 0;                // of them, ever
  bool far_ = false;
  std::uint32_t number_ = 0;
  Clock::time_point next_{};
  std::uint64_t sum_ = 0;  // of what was read, so that it is
};

}  // namespace echelon::shm
