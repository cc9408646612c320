// SPDX-License-Identifier: Apache-2.0
// What `./dev demo` shows: the fabric, the plans and their reasons, the measured times, and what
// the hierarchy gains over a flat ring.
#pragma once

#include <cstdint>

#include "tools/perf/comm.h"
#include "tools/perf/settings.h"

namespace echelon::perf {

// Collective. Rank 0 prints. The number of wrong elements on all ranks.
std::uint64_t demo(const Comm& comm, const Settings& settings);

}  // namespace echelon::perf
