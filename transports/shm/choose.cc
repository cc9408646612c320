// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/choose.h"

namespace echelon::shm {

Variant choose(const Question& question, const Thresholds& thresholds) {
  if (question.bytes == 0) return Variant::kOneShot;  // a barrier
  if (question.can_read_peers && question.members > 1 && question.bytes >= thresholds.read)
    return Variant::kRead;
  const std::size_t one_shot =
      question.members <= 2 ? thresholds.one_shot_pair : thresholds.one_shot;
  if (question.action == GroupAction::kAllreduce && question.bytes <= one_shot)
    return Variant::kOneShot;
  return Variant::kStaged;
}

}  // namespace echelon::shm
