// SPDX-License-Identifier: Apache-2.0
// The parts of a call as one row of bytes, in the order of the parts. Reductions and slots use
// positions in this row; pieces() says where they are in the user's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "transports/group.h"

namespace echelon::shm {

inline constexpr int kAnyOwner = -1;

// Bytes [begin, end) of the row made of the parts of one owner, or of all parts.
struct Region {
  int owner = kAnyOwner;
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t bytes() const { return end - begin; }
  bool empty() const { return begin == end; }
};

// A stretch of a region that is contiguous in the user's memory.
struct Piece {
  std::size_t position;  // from the region's begin
  std::size_t input_offset;
  std::size_t output_offset;
  std::size_t bytes;
};

// Calls visit(piece) for the pieces of `region` in order.
template <typename Visit>
void pieces(std::span<const GroupPart> parts, const Region& region, Visit visit) {
  std::size_t at = 0;
  for (const GroupPart& part : parts) {
    if (at >= region.end) return;
    if (region.owner != kAnyOwner && part.owner != region.owner) continue;
    const std::size_t begin = std::max(at, region.begin);
    const std::size_t end = std::min(at + part.bytes, region.end);
    if (begin < end)
      visit(Piece{begin - region.begin, part.input_offset + (begin - at),
                  part.output_offset + (begin - at), end - begin});
    at += part.bytes;
  }
}

}  // namespace echelon::shm
