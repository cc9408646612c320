// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/rounds.h"

#include <algorithm>
#include <bit>

#include "transports/shm/segment.h"

namespace echelon::shm {
namespace {

// Ranks that add up and gather in turns wait for each other: so many rounds keep them busy.
// Measured: bench/results, "slots that fill the cache".
constexpr std::size_t kRoundsOfTwo = 2, kRoundsOfMore = 16;

// Among more than two, a call of which each has so much to add up takes two rounds at least: ranks
// that share a core stage while others add up. Measured: bench/results, "two rounds at least".
constexpr std::size_t kTwoRoundsFrom = 16 << 10;

// Of two members one copies into slots while the other takes out of them, where one owns all. Calls
// of kCutFrom and more go in two rounds, those of more than two kRoundOfOneOwner in rounds of that.
// Not among more: on two cores they only waited more often. Measured: bench/results, "one owner
// of two".
constexpr std::size_t kCutFrom = 32 << 10, kRoundOfOneOwner = 64 << 10;

// Two members have four slots each, of a lane, in a cache that holds 64 slots; more members, who
// share cores, have larger blocks. Measured: bench/results, "a cache of 8 MiB" and "smaller
// slots for more than two".
constexpr std::size_t kShareOfPair = 64, kShareOfMore = 32;
constexpr std::size_t kLeastInUse = 64 << 10;

// What was written is to leave a second-level cache, and to stay in the third: in the slots of one
// parity and direction, for each member and other member, of all lanes that are used in turns.
// Measured: bench/results, "from place to place".
constexpr std::size_t kMostPlaces = 16, kInPlaces = 4 << 20;

// The smallest block of which two hold so many bytes.
std::size_t half_of(std::size_t bytes) { return line_multiple((bytes + 1) / 2 + kLine - 1); }

// At most in a round. No limit unless one of two owns all.
std::size_t most_in_round(const Question& call, std::size_t share) {
  const bool one_of_two = call.members == 2 && share == call.bytes;
  if (!one_of_two || share < kCutFrom) return SIZE_MAX;
  return std::min(kRoundOfOneOwner, half_of(share));
}

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
  if (variant == Variant::kOneShot) return line_multiple(slot);
  const bool one_in_slot = call.action == GroupAction::kAllgather;  // else one of each owner
  const std::size_t block = line_multiple(one_in_slot ? slot : slot / call.members);
  if (call.action != GroupAction::kAllreduce) return std::min(block, most_in_round(call, share));
  const std::size_t rounds = call.members > 2 ? kRoundsOfMore : kRoundsOfTwo;
  if (share >= rounds * block) return block;
  const std::size_t half = line_multiple(block / 2);
  if (call.members <= 2 || share < kTwoRoundsFrom) return half;
  return std::min(half, half_of(share));
}

Places places_in_slot(const RoundInSlot& round, std::size_t in_use) {
  const auto members = static_cast<std::size_t>(round.members);
  const auto lanes = static_cast<std::size_t>(round.lanes);
  const std::size_t fit = std::min(in_use, kInPlaces / (members * members * lanes)) / round.bytes;
  return {std::bit_floor(std::clamp(fit, std::size_t{1}, kMostPlaces)), round.bytes};
}

}  // namespace echelon::shm
