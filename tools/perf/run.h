// SPDX-License-Identifier: Apache-2.0
// A whole run of perf, on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/perf/report.h"
#include "tools/perf/settings.h"

namespace echelon::perf {

// The number of wrong elements on all ranks together, the same on all ranks. Throws Failure when a
// call fails and std::invalid_argument when the settings do not fit.
std::uint64_t run(const Settings& settings);

std::uint64_t wrong_elements(const std::vector<Row>& rows);

}  // namespace echelon::perf
