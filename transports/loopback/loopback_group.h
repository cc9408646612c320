// SPDX-License-Identifier: Apache-2.0
// A group of threads of one process, done in the plainest way: the last member to arrive at a
// call computes it for all. The reference that other group engines are compared with.
#pragma once

#include <memory>

#include "lib/base/pipeline.h"
#include "transports/group.h"

namespace echelon {

// Errors: ECH_ERR_SYSTEM, ECH_ERR_NO_MEMORY (no event descriptor).
std::unique_ptr<GroupMedium> make_loopback_group(int lanes = kPipelineDepth);

}  // namespace echelon
