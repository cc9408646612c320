// SPDX-License-Identifier: Apache-2.0
// Tries on this machine what ranks will do, and gathers what cannot be read from small files.
#pragma once

#include "tools/doctor/view.h"

namespace echelon::doctor {

// Forks, so it wants a process without threads. What it tries leaves nothing behind. Does not throw
// for what it finds missing.
View look_at_this_machine(const Job& job);

}  // namespace echelon::doctor
