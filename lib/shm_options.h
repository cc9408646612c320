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

// What the ranks of a host have of it. Hosts on one machine, as containers are, share it.
struct HostShare {
  double caches = 1;     // part of the caches, where several hosts see the same of them
  bool crowded = false;  // they and those that may run there, too, outnumber their CPUs
};
HostShare host_share(std::size_t rank, std::span<const RankPlace> places, const Fabric& fabric);

// `single_copy` is ECHELON_SINGLE_COPY, whose on and off win over what was measured.
ShmOptions shm_options(std::string_view single_copy, const TunedSharedMemory& tuned,
                       const Host& host, const HostShare& share = {});

}  // namespace echelon
