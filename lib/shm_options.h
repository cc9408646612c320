// SPDX-License-Identifier: Apache-2.0
// How a communicator uses the shared memory of its host.
#pragma once

#include <string_view>

#include "lib/fabric/fabric.h"
#include "lib/tuning/tuning.h"
#include "transports/shm/shm_group.h"

namespace echelon {

// `single_copy` is ECHELON_SINGLE_COPY, whose on and off win over what was measured. Of the host
// the caches count.
ShmOptions shm_options(std::string_view single_copy, const TunedThresholds& tuned,
                       const Host& host);

}  // namespace echelon
