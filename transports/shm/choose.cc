// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/choose.h"

#include <algorithm>

namespace echelon::shm {
namespace {

// Where nothing is known of the caches; and from here on it is tried, whatever is known.
constexpr std::size_t kStreamFrom = 8 << 20;

// In all slots, at most. Two members use little of them when they reduce (rounds.h).
std::size_t staged(const Extent& extent) {
  const auto members = static_cast<std::size_t>(extent.members);
  const std::size_t lanes = static_cast<std::size_t>(extent.lanes);
  if (lanes > 0) return members * std::min(extent.buffers, lanes * extent.bytes);
  if (extent.action == GroupAction::kAllgather) return extent.bytes;
  if (members == 2) return 0;
  const std::size_t results = extent.action == GroupAction::kAllreduce ? extent.bytes : 0;
  return (members - 1) * extent.bytes + results;
}

std::size_t touched(const Extent& extent) {
  return static_cast<std::size_t>(extent.members) * extent.buffers + staged(extent);
}

// For each byte of an allreduce.
std::size_t touched_by_allreduce(int members) {
  return touched({GroupAction::kAllreduce, members, 1, 2});
}

// Bytes of the least allreduce, one call out of place, whose results bypass the cache.
std::size_t stream_from(int members, const Thresholds& thresholds) {
  if (thresholds.caches == SIZE_MAX) return kStreamFrom;
  return thresholds.caches / touched_by_allreduce(members) + 1;
}

}  // namespace

std::size_t as_allreduce(const Extent& extent) {
  return touched(extent) / touched_by_allreduce(extent.members);
}

bool bypasses_cache(const Extent& extent, const Thresholds& thresholds) {
  return as_allreduce(extent) >= stream_from(extent.members, thresholds);
}

bool may_bypass_cache(const Extent& extent, const Thresholds& thresholds) {
  const std::size_t from = std::min(stream_from(extent.members, thresholds), kStreamFrom);
  return as_allreduce(extent) >= from;
}

Variant choose(const Question& question, const Thresholds& thresholds) {
  if (question.bytes == 0) return Variant::kOneShot;  // a barrier
  if (question.action == GroupAction::kAllgather) return Variant::kStaged;
  if (question.can_read_peers && question.members > 1 && question.bytes >= thresholds.read)
    return Variant::kRead;
  const std::size_t one_shot =
      question.members <= 2 ? thresholds.one_shot_pair : thresholds.one_shot;
  if (question.action == GroupAction::kAllreduce && question.bytes <= one_shot)
    return Variant::kOneShot;
  return Variant::kStaged;
}

}  // namespace echelon::shm
