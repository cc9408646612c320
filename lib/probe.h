// SPDX-License-Identifier: Apache-2.0
// Measures the links of every tier, so that plans rest on numbers and not on data sheets.
#pragma once

#include "lib/bootstrap/control.h"
#include "lib/engine/engine.h"
#include "lib/fabric/layout.h"

namespace echelon {

// Collective. Per tier two ranks of its first group exchange messages while the others wait (a
// host tier with a group engine is measured by all hosts at once), and every rank takes over the
// result, except where the fabric file stated the number. Takes some 10 ms per tier on a link of
// 1 Gbit/s. Throws ECH_ERR_TIMEOUT after `deadline`, and what the control connection throws.
void probe_links(Layout& layout, EngineParts& media, Control& control, Deadline deadline);

}  // namespace echelon
