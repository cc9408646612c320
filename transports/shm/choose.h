// SPDX-License-Identifier: Apache-2.0
// Which variant a call takes: a pure function of what all members know alike, so that they agree
// without asking each other. Whether a buffer lies in shared memory is not among it: each member
// decides by itself how to show its own (peer_memory.h), within any variant. So it does whether
// results bypass the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transports/group.h"

namespace echelon::shm {

enum class Variant {
  kOneShot,  // everyone shows its input; everyone reduces all of it. Allreduce only
  kStaged,   // owners reduce from slots and are read through slots, in rounds (rounds.h)
  kRead,     // a reduction whose members have the kernel copy from the others' own memory
};

// From here on the kernel copies, where one asks for it or it is found to be quicker.
inline constexpr std::size_t kSingleCopyFrom = 64 << 10;

// Sizes are bytes of the whole call. Set from a tuning file or by a test; equal on all members, but
// for what only says how a member writes, or shows what it has: past, past_from, address,
// address_from, caches and crowded. (Trials compare nothing where one of the first four differs.)
// The defaults are what docs/shm.md measures.
struct Thresholds {
  std::size_t one_shot = 16 << 10;        // largest one-shot allreduce of many members
  std::size_t one_shot_pair = 128 << 10;  // and of two, where it costs only one copy more
  std::size_t read = SIZE_MAX;            // smallest kRead, a reduction
  std::size_t block = SIZE_MAX;           // of a slot that is used in a round; at most all of it
  std::size_t cache = SIZE_MAX;       // of the third level, which members have; not set: unknown
  std::size_t caches = SIZE_MAX;      // all of the third level that the host has; not set: unknown
  std::size_t read_block = SIZE_MAX;  // of one owner in a round of kRead
  std::size_t direct = 64 << 10;      // from here on shared buffers are read in place
  std::size_t past_from = 4 << 10;    // from here on what others load may go past the cache
  std::optional<bool> past = {};      // whether it does; not set: tried (way_trial.h)
  std::size_t address_from = kSingleCopyFrom;  // from here on gathers may be read by the kernel
  std::optional<bool> address = {};            // whether they are; not set: tried
  bool crowded = false;  // ranks outnumber the CPUs that they may run on; trials count so
};

struct Question {
  GroupAction action;
  std::size_t bytes;  // of the call
  int members;
  bool can_read_peers;  // every member may read every other's memory
};

Variant choose(const Question& question, const Thresholds& thresholds);

// What the members of an operation read and write.
struct Extent {
  GroupAction action;
  int members;
  std::size_t bytes;    // of the call
  std::size_t buffers;  // of one member's input and output
  int lanes = 0;        // with calls of the operation; 0: it is one call
};

// Bytes of an allreduce that touches as much, one call out of place.
std::size_t as_allreduce(const Extent& extent);

// Whether results bypass the cache, where nothing else is known of them: what is touched does not
// fit into `caches`; or, where these are not known, is as much as for an allreduce of 8 MiB.
bool bypasses_cache(const Extent& extent, const Thresholds& thresholds);

// Whether that is tried: also where they would fit by what the caches claim to hold. What virtual
// machines are told of is shared with others.
bool may_bypass_cache(const Extent& extent, const Thresholds& thresholds);

}  // namespace echelon::shm
