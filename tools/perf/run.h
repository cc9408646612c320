// SPDX-License-Identifier: Apache-2.0
// A whole run of perf, on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/perf/device.h"
#include "tools/perf/report.h"
#include "tools/perf/settings.h"

namespace echelon::perf {

// The number of wrong elements on all ranks together, the same on all ranks. Throws Failure when a
// call fails and std::invalid_argument when the settings do not fit. `open_device` is called when
// they ask for one.
std::uint64_t run(const Settings& settings, const OpenDevice& open_device);

std::uint64_t wrong_elements(const std::vector<Row>& rows);

}  // namespace echelon::perf
