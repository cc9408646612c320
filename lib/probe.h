// SPDX-License-Identifier: Apache-2.0
// Measures the links of every tier, so that plans rest on numbers and not on data sheets.
#pragma once

#include <vector>

#include "lib/bootstrap/control.h"
#include "lib/engine/engine.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/layout.h"

namespace echelon {

// Collective. Per tier two ranks of its first group exchange messages while the others wait (a
// host tier with a group engine is measured by all hosts at once). Gives the same numbers on every
// rank, for the tiers that could be measured. Takes some 10 ms per tier on a link of 1 Gbit/s.
// Throws ECH_ERR_TIMEOUT after `deadline`, and what the control connection throws.
std::vector<TierNumbers> probe_links(const Layout& layout, EngineParts& media, Control& control,
                                     Deadline deadline);

}  // namespace echelon
