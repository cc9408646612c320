// SPDX-License-Identifier: Apache-2.0
// Binomial trees rooted at the owners: a reduce to, or a broadcast from, each member that owns
// something. Fewest rounds for one root; for buffers of many owners it sends many messages.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", Int. J. High Perform. Comput. Appl. 19 (2005).
//
// Cost on n members with even shares, B = buffer, L = ceil(log2 n), of the busiest member:
//                   rounds   sent          reduced
//   reduce_scatter  L        B (n-1)/n     B (n-1)/n
//   allgather       L        B (n-1)/n     0
//   allreduce       2L       B L           B L         (reduce to member 0, broadcast from it)
// Each sends n-1 messages in the first two, and the busiest L in an allreduce, all together 2(n-1).
// When one member owns all, that one sends, or receives and reduces, L messages of B.
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int binomial_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares);
int binomial_allgather(Schedule& out, int step, const Group& g, const Shares& shares);
int binomial_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
