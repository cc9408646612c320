// SPDX-License-Identifier: Apache-2.0
// Which variant a call takes. A pure function of what all members know alike, so that they agree
// without asking each other.
#pragma once

#include <cstddef>

#include "transports/group.h"

namespace echelon::shm {

enum class Variant {
  kOneShot,  // everyone shows its input; everyone reduces all of it. Allreduce only
  kStaged,   // owners reduce from and are read through staging, in rounds of one slot
};

// Sizes are bytes of the whole call. Set from a tuning file or by a test.
struct Thresholds {
  std::size_t one_shot = 8192;           // largest one-shot allreduce of many members
  std::size_t one_shot_pair = SIZE_MAX;  // and of two: there it never moves more bytes
  std::size_t block = SIZE_MAX;          // of a slot that is used in a round; at most all of it
  std::size_t stream = 8 << 20;  // from here on results of calls out of place bypass the cache
};

Variant choose(GroupKind kind, std::size_t bytes, int members, const Thresholds& thresholds);

}  // namespace echelon::shm
