// SPDX-License-Identifier: Apache-2.0
// The group engine for ranks of one host: processes, or threads of one process. See docs/shm.md.
#pragma once

#include <memory>

#include "transports/group.h"
#include "transports/shm/choose.h"
#include "transports/shm/segment.h"
#include "transports/shm/way_trial.h"

namespace echelon {

// Equal on all members of a group, but for what thresholds say only of how a member writes.
struct ShmOptions {
  shm::SegmentShape shape;
  shm::Thresholds thresholds;
  shm::KnownWays known;
};

// Creates this rank's shared memory and wake-up socket.
// Errors: ECH_ERR_INVALID (shape), ECH_ERR_SYSTEM, ECH_ERR_NO_MEMORY. connect() of it also throws
// ECH_ERR_UNSUPPORTED when a member is on another host or cannot be reached through /proc.
std::unique_ptr<GroupMedium> make_shm_group(const ShmOptions& options = {});

// What this member's trials and the others' have found so far: ShmOptions::known of groups like
// that one. Of an engine made by make_shm_group().
shm::KnownWays ways_found(const GroupEngine& engine);

}  // namespace echelon
