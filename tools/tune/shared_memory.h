// SPDX-License-Identifier: Apache-2.0
// The ways of shared memory (docs/shm.md), measured among the ranks of each host without the
// library's communicators, which take one way for each size.
#pragma once

#include <cstddef>
#include <string>

#include "lib/tuning/tuning.h"
#include "tools/perf/comm.h"

namespace echelon::tune {

struct MeasuredSharedMemory {
  TunedSharedMemory ways;
  bool complete = true;  // false: time was up before all of them were measured
};

// Collective; all hosts at the same time, the slowest one counts. Calls of up to `largest` bytes,
// for at most about `seconds`. Throws perf::Failure when another rank of the host stops going on.
MeasuredSharedMemory measure_shared_memory(const perf::Comm& comm, std::size_t largest,
                                           double seconds);

// "# shared memory: one_shot 32 KiB, read never; else as built in\n"
std::string line(const MeasuredSharedMemory& measured);

}  // namespace echelon::tune
