// SPDX-License-Identifier: Apache-2.0
// How a communicator uses the shared memory of its host.
#pragma once

#include <string_view>

#include "lib/tuning/tuning.h"
#include "transports/shm/shm_group.h"

namespace echelon {

// The smallest call in which the kernel copies, where nothing was measured.
inline constexpr std::size_t kSingleCopyFrom = 64 << 10;

// `single_copy` is ECHELON_SINGLE_COPY, whose on and off win over what was measured.
ShmOptions shm_options(std::string_view single_copy, const TunedThresholds& tuned);

}  // namespace echelon
