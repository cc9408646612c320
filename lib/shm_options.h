// SPDX-License-Identifier: Apache-2.0
// How a communicator uses the shared memory of its host.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lib/fabric/fabric.h"
#include "lib/fabric/place.h"
#include "lib/tuning/tuning.h"
#include "transports/shm/shm_group.h"

namespace echelon {

// Those that the third-level caches of the host serve.
CpuSet cached_cpus(const Host& host);

// What part of its host's caches the ranks there have: hosts on one machine that see the same of
// them, as containers do, share them.
double cache_share(std::size_t rank, std::span<const RankPlace> places, const Fabric& fabric);

// `single_copy` is ECHELON_SINGLE_COPY, whose on and off win over what was measured. Of the host
// the caches count, of which it has the part `share`.
ShmOptions shm_options(std::string_view single_copy, const TunedSharedMemory& tuned,
                       const Host& host, double share = 1);

}  // namespace echelon
