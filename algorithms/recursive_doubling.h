// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: in round k all members exchange everything they have with the member whose
// index differs in bit k, and add. Fewest rounds of all allreduces with one message per round and
// member: for small buffers. Any n, see fold.h.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", Int. J. High Perform. Comput. Appl. 19 (2005).
//
// Cost, B = buffer, L = floor(log2 n), of the busiest member:
//              rounds                  sent                    reduced
//   allreduce  L, L+2 unless n = 2^L   B L, B (L+1) likewise   B L, B (L+1) likewise
// in as many messages as buffers; all members send L 2^L, and 2(n - 2^L) more.
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int recursive_doubling_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
