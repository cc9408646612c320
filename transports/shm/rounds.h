// SPDX-License-Identifier: Apache-2.0
// How a call is cut into rounds. Pure functions of what all members know alike, as in choose.h.
#pragma once

#include <cstddef>

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

}  // namespace echelon::shm
