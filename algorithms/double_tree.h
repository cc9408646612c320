// SPDX-License-Identifier: Apache-2.0
// Double binary tree: each half of the buffer is reduced up one binary tree and broadcast down it.
// The trees are such that no member is an inner node in both, so that all members' links are used
// evenly. Logarithmic in rounds and, with the engine's segments following each other up and down
// the trees, near the optimum in bytes too.
// Source: Sanders, Speck, Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35 (2009).
//
// Cost, B = buffer, L = floor(log2 n), of the busiest member, n >= 4:
//              rounds   sent                       reduced
//   allreduce  2L       2B (n = 3: 1.5B, n = 2: B) B (n = 2: B/2)
// in messages of B/2, 4(n-1) in all.
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int double_tree_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
