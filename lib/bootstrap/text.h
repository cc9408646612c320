// SPDX-License-Identifier: Apache-2.0
// Pieces of sentences that several files say.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/bootstrap/control.h"

namespace echelon {

// "rank 3", "ranks 1, 3-5 and 7"; at most ten pieces.
std::string rank_list(const std::vector<int>& ranks);

// What others say, to be shown to people: what could confuse a terminal becomes "?".
std::string one_line(std::string_view text);

// Seconds since `start`: "2.0 s".
std::string seconds_since(Deadline start);

// For poll(): rounded up, 0 when past.
int milliseconds_until(Deadline deadline);

}  // namespace echelon
