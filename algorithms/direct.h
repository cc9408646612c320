// SPDX-License-Identifier: Apache-2.0
// Direct: everybody with everybody. As few rounds as there can be, n-1 messages in each; for small
// groups with a link for every pair. The allreduce has two variants: two-shot reduce-scatters and
// allgathers ("direct"), one-shot sends everything to everybody ("one_shot").
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", Int. J. High Perform. Comput. Appl. 19 (2005), pairwise exchange, all pairs at once.
//
// Cost on n members with even shares, B = buffer:
//                      rounds   sent by each    reduced by each
//   reduce_scatter     1        B (n-1)/n       B (n-1)/n
//   allgather          1        B (n-1)/n       0
//   allreduce          2        2B (n-1)/n      B (n-1)/n
//   one-shot allreduce 1        B (n-1)         B (n-1)
// When one member owns all, that one sends, or receives and reduces, B (n-1).
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int direct_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares);
int direct_allgather(Schedule& out, int step, const Group& g, const Shares& shares);
int direct_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);
int one_shot_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
