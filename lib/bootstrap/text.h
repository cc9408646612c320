// SPDX-License-Identifier: Apache-2.0
// Pieces of sentences that several files say.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/bootstrap/control.h"

namespace echelon {

// "rank 3", "ranks 1, 3-5 and 7"; at most ten pieces.
std::string rank_list(const std::vector<int>& ranks);

// Seconds since `start`: "2.0 s".
std::string seconds_since(Deadline start);

// For poll(): rounded up, 0 when past.
int milliseconds_until(Deadline deadline);

}  // namespace echelon
