// SPDX-License-Identifier: Apache-2.0
// The exact check: every collective, type and op, odd counts, in and out of place, on buffers that
// are off their alignment, in every form of a call, every root's first and last.
#pragma once

#include <cstdint>

#include "tools/perf/comm.h"
#include "tools/perf/settings.h"

namespace echelon::perf {

// Collective. Rank 0 prints one line per collective. The number of wrong elements on all ranks.
std::uint64_t sweep(const Comm& comm, const Settings& settings);

}  // namespace echelon::perf
