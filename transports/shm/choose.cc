// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/choose.h"

namespace echelon::shm {

Variant choose(GroupKind kind, std::size_t bytes, int members, const Thresholds& thresholds) {
  if (bytes == 0) return Variant::kOneShot;  // a barrier
  const std::size_t limit = members == 2 ? thresholds.one_shot_pair : thresholds.one_shot;
  if (kind == GroupKind::kAllreduce && bytes <= limit) return Variant::kOneShot;
  return Variant::kStaged;
}

}  // namespace echelon::shm
