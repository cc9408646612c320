// SPDX-License-Identifier: Apache-2.0
// Which cores a rank may use.
#pragma once

#include <vector>

#include "tools/cluster/cores.h"
#include "tools/run_protocol.h"

namespace echelon::run {

using cluster::Core;

// The processors for slot `slot` of `slots`, empty when it is not to be bound. kAuto binds when
// every slot gets a core of its own. Throws ECH_ERR_INVALID when kCore has too few cores.
std::vector<int> cpus_of_slot(const std::vector<Core>& cores, Bind bind, int slot, int slots);

}  // namespace echelon::run
