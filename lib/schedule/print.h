// SPDX-License-Identifier: Apache-2.0
// Schedules for people and for programs.
#pragma once

#include <string>

#include "lib/schedule/schedule.h"

namespace echelon {

// Phase by phase and step by step, who sends what to whom. "->" copies, "=>" adds.
//
//   18 units, 6 steps
//   allreduce(tier 1) by ring
//     step 1  0=>3 [0,2)  3=>4 [4,6)
std::string table(const Schedule& schedule);

// The contents of the ranks' memory before each step and in the end. A column is a rank, a row is
// a range of units (rows that are alike are one); letters are ranks' inputs ("a" is rank 0's), "*"
// is the sum of all, "." is nothing. For up to 26 ranks and a schedule that verifies; text that
// says so otherwise.
std::string picture(const Schedule& schedule, ech_collective collective, int size, int root = 0);

// {"units", "steps", "phases": [{"name", "tier", "begin", "end"}],
//  "transfers": [{"step", "from", "to", "begin", "end", "action": "copy" | "reduce"}],
//  "calls": [{"step", "action", "group": [rank], "parts": [{"begin", "end", "owner"}]}]}
std::string json(const Schedule& schedule);

}  // namespace echelon
