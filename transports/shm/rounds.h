// SPDX-License-Identifier: Apache-2.0
// How a call is cut into rounds. Pure functions of what all members know alike, as in choose.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/shm/choose.h"

namespace echelon::shm {

// The largest multiple of a cache line in `bytes`, at least one line.
std::size_t line_multiple(std::size_t bytes);

// What a call uses in a round of slots of so many bytes: little enough for slots to stay in the
// cache beside buffers, of two members where the call fits it, of more in allreduces.
std::size_t slot_in_use(const Question& call, const Thresholds& thresholds, std::size_t slot);

// Bytes of one owner in a round of a call that goes through slots of so many bytes, of which the
// largest owner has `share`. `call.bytes` is all of the call, of an allgather, too.
std::size_t block_of_round(const Question& call, Variant variant, std::size_t share,
                           std::size_t slot);

// Where a round begins in the slots of its parity. Small rounds go on from place to place: what one
// writes its reader has not had in its caches lately, so nothing must be fetched out of them.
struct Places {
  std::uint64_t count = 1;  // a power of two
  std::size_t bytes = 0;
  std::size_t at(std::uint64_t round) const { return (round / 2 & (count - 1)) * bytes; }
};

struct RoundInSlot {
  std::size_t bytes;   // that it takes of a slot
  int members, lanes;  // that make such calls in turns
};

// In slots of which so many bytes are in use.
Places places_in_slot(const RoundInSlot& round, std::size_t in_use);

}  // namespace echelon::shm
