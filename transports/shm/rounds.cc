// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/rounds.h"

#include <algorithm>

#include "transports/shm/segment.h"

namespace echelon::shm {
namespace {

// Ranks that add up and gather in turns wait for each other: so many rounds keep them busy.
// Measured: bench/RESULTS.md, "slots that fill the cache".
constexpr std::size_t kRoundsOfTwo = 2, kRoundsOfMore = 16;

}  // namespace

std::size_t line_multiple(std::size_t bytes) {
  return std::max(bytes / kLine, std::size_t{1}) * kLine;
}

std::size_t block_of_round(const Question& call, Variant variant, std::size_t share,
                           std::size_t slot) {
  if (variant == Variant::kOneShot || call.action == GroupAction::kAllgather)
    return line_multiple(slot);
  const std::size_t block = line_multiple(slot / call.members);  // a slot holds one of each owner
  const std::size_t rounds = call.members > 2 ? kRoundsOfMore : kRoundsOfTwo;
  const bool in_turns = call.action == GroupAction::kAllreduce;
  return in_turns && share < rounds * block ? line_multiple(block / 2) : block;
}

}  // namespace echelon::shm
