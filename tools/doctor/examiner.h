// SPDX-License-Identifier: Apache-2.0
// Examines several hosts at once, and what is between them.
#pragma once

#include "tools/doctor/survey.h"
#include "tools/run_options.h"

namespace echelon::doctor {

// The hosts of the options, reached as `echelon run` reaches them. A host that cannot be examined
// has a problem and does not keep the others waiting for longer than check_timeout. Throws
// ECH_ERR_INVALID for options that make no sense only.
Survey survey_hosts(const run::Options& options);

}  // namespace echelon::doctor
