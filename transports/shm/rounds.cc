// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/rounds.h"

#include <algorithm>

#include "transports/shm/segment.h"

namespace echelon::shm {
namespace {

// Ranks that add up and gather in turns wait for each other: so many rounds keep them busy.
// Measured: bench/RESULTS.md, "slots that fill the cache".
constexpr std::size_t kRoundsOfTwo = 2, kRoundsOfMore = 16;

// Among more than two, a call of which each has so much to add up takes two rounds at least: ranks
// that share a core stage while others add up. Measured: bench/RESULTS.md, "two rounds at least".
constexpr std::size_t kTwoRoundsFrom = 16 << 10;

// Two members have four slots each, of a lane, in a cache that holds 64 slots; more members, who
// share cores, have larger blocks. Measured: bench/RESULTS.md, "a cache of 8 MiB" and "smaller
// slots for more than two".
constexpr std::size_t kShareOfPair = 64, kShareOfMore = 32;
constexpr std::size_t kLeastInUse = 64 << 10;

}  // namespace

std::size_t line_multiple(std::size_t bytes) {
  return std::max(bytes / kLine, std::size_t{1}) * kLine;
}

std::size_t slot_in_use(const Question& call, const Thresholds& thresholds, std::size_t slot) {
  const bool pair = call.members == 2;
  const bool limited =
      pair ? call.bytes < thresholds.cache : call.action == GroupAction::kAllreduce;
  const std::size_t share = thresholds.cache / (pair ? kShareOfPair : kShareOfMore);
  return std::min({slot, thresholds.block, limited ? std::max(kLeastInUse, share) : slot});
}

std::size_t block_of_round(const Question& call, Variant variant, std::size_t share,
                           std::size_t slot) {
  if (variant == Variant::kOneShot || call.action == GroupAction::kAllgather)
    return line_multiple(slot);
  const std::size_t block = line_multiple(slot / call.members);  // a slot holds one of each owner
  const std::size_t rounds = call.members > 2 ? kRoundsOfMore : kRoundsOfTwo;
  const bool in_turns = call.action == GroupAction::kAllreduce;
  if (!in_turns || share >= rounds * block) return block;
  const std::size_t half = line_multiple(block / 2);
  if (call.members <= 2 || share < kTwoRoundsFrom) return half;
  return std::min(half, line_multiple((share + 1) / 2 + kLine - 1));
}

}  // namespace echelon::shm
