// SPDX-License-Identifier: Apache-2.0
// A whole run of tune, on every rank.
#pragma once

#include "tools/tune/settings.h"

namespace echelon::tune {

// Throws perf::Failure when a call fails or the file cannot be written, and std::invalid_argument
// when the settings do not fit.
void run(const Settings& settings);

}  // namespace echelon::tune
