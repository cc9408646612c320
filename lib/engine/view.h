// SPDX-License-Identifier: Apache-2.0
// Where the units of one segment are in memory.
//
// A segment takes the elements [begin, end) of every block of the buffer. Boundaries are rounded
// to elements the same way on every rank, so all ranks agree on every slice's bytes.
#pragma once

#include <cstddef>

#include "lib/base/mul_div.h"
#include "lib/engine/program.h"

namespace echelon {

// One of a rank's two buffers.
template <typename Byte>
struct Strided {
  Byte* data = nullptr;    // element `begin` of block 0
  std::size_t stride = 0;  // bytes from block to block; 0: only one block is there, and asked for
};

struct View {
  Unit block_units = 1;
  std::size_t elements = 0;  // of the segment, per block
  std::size_t element_size = 1;
  Strided<const std::byte> input;
  Strided<std::byte> work;

  std::size_t count(Slice s) const { return upto(s.end) - upto(s.begin); }
  std::size_t bytes(Slice s) const { return count(s) * element_size; }

  // Bytes from Strided::data to the slice.
  template <typename Byte>
  std::size_t offset(const Strided<Byte>& blocks, Slice s) const {
    const Unit block = s.begin / block_units;
    return block * blocks.stride + within(s.begin % block_units) * element_size;
  }
  const std::byte* at(Place place, Slice s) const {
    return place == Place::kInput ? input.data + offset(input, s) : at_work(s);
  }
  std::byte* at_work(Slice s) const { return work.data + offset(work, s); }

 private:
  std::size_t within(Unit unit) const { return mul_div(elements, unit, block_units); }
  std::size_t upto(Unit unit) const {
    return unit / block_units * elements + within(unit % block_units);
  }
};

}  // namespace echelon
