// SPDX-License-Identifier: Apache-2.0
// What trials of calls on shared memory have found (docs/shm.md, "Past the cache"), of all hosts.
#pragma once

#include <cstdint>
#include <span>

#include "lib/tuning/tuning.h"
#include "tools/perf/comm.h"
#include "transports/shm/way_trial.h"

namespace echelon::tune {

// Of each class of calls, what those say who know; not known where they differ.
std::uint64_t agreed(std::span<const std::uint64_t> words);

// How many classes take the other way.
int count_others(std::uint64_t word);

// The same on all ranks. Collective.
void keep_ways(const perf::Comm& comm, const shm::KnownWays& own, TunedSharedMemory& tuned);

}  // namespace echelon::tune
