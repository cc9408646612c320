// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/buffer_list.h"

#include <bit>
#include <cassert>
#include <limits>

namespace echelon {

BufferList::BufferList(std::size_t element_size, Factors factors, bool adjacent_joins)
    : element_size_(element_size), factors_(factors), adjacent_joins_(adjacent_joins) {
  mix(std::bit_cast<std::uint64_t>(factors.before));
  mix(std::bit_cast<std::uint64_t>(factors.after));
}

// The upper bits of a product mix all bits of the factors (Knuth, TAOCP 3, 6.4).
void BufferList::mix(std::uint64_t number) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  digest_ = (digest_ ^ number) * kGolden;
  digest_ ^= digest_ >> 32;
}

void BufferList::add(const Part& buffer) {
  ++buffers_;
  mix(buffer.count);
  if (buffer.count == 0) return;
  ++filled_;
  const std::size_t begin = count(), end = begin + buffer.count;
  if (joins(buffer))
    runs_.back().end = end;
  else
    runs_.push_back({buffer.input, buffer.output, begin, end});
}

bool BufferList::joins(const Part& buffer) const {
  if (!adjacent_joins_ || runs_.empty()) return false;
  const Run& last = runs_.back();
  const std::size_t bytes = (last.end - last.begin) * element_size_;
  return last.input + bytes == buffer.input && last.output + bytes == buffer.output;
}

std::uint16_t BufferList::buffers() const {
  constexpr std::size_t kMost = std::numeric_limits<std::uint16_t>::max();
  return static_cast<std::uint16_t>(std::min(buffers_, kMost));
}

std::uint16_t BufferList::digest() const { return static_cast<std::uint16_t>(digest_ >> 16); }

BufferList::Part BufferList::part(std::size_t begin, std::size_t end) const {
  const auto run = std::ranges::upper_bound(runs_, begin, {}, &Run::end);
  assert(run != runs_.end());
  const std::size_t shift = (begin - run->begin) * element_size_;
  return {run->input + shift, run->output + shift, std::min(end, run->end) - begin};
}

}  // namespace echelon
