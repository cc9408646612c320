// SPDX-License-Identifier: Apache-2.0
// Buffers of the caller that one operation reduces as if they lay one after the other, and what
// their elements are multiplied by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon {

class BufferList {
 public:
  // Of every element, before the ranks add it up and after.
  struct Factors {
    double before = 1, after = 1;
  };
  struct Part {
    const std::byte* input;
    std::byte* output;
    std::size_t count;  // elements
  };

  // `adjacent_joins`: what follows the buffer before it in memory, input and output alike, becomes
  // one with it. Not where an access must stay within an allocation, as on a GPU.
  BufferList(std::size_t element_size, Factors factors, bool adjacent_joins);

  void add(const Part& buffer);  // after those before

  const Factors& factors() const { return factors_; }
  std::size_t count() const { return runs_.empty() ? 0 : runs_.back().end; }

  // Alike on all ranks that have given the same, wherever their buffers lie.
  std::uint16_t buffers() const;  // their number, 65535 at most
  std::uint16_t digest() const;   // of counts and factors
  bool is_plain() const { return filled_ <= 1 && factors_.before == 1 && factors_.after == 1; }

  // From element `begin` on, up to `end` or to where memory is not adjacent any more.
  Part part(std::size_t begin, std::size_t end) const;

  // All that elements [begin, end) consist of, in order.
  template <typename Use>
  void each(std::size_t begin, std::size_t end, Use use) const {
    while (begin < end) {
      const Part next = part(begin, end);
      use(next);
      begin += next.count;
    }
  }

 private:
  struct Run {
    const std::byte* input;
    std::byte* output;
    std::size_t begin, end;  // elements
  };

  void mix(std::uint64_t number);
  bool joins(const Part& buffer) const;

  const std::size_t element_size_;
  const Factors factors_;
  const bool adjacent_joins_;
  std::vector<Run> runs_;
  std::size_t buffers_ = 0, filled_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace echelon
