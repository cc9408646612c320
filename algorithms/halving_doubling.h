// SPDX-License-Identifier: Apache-2.0
// Recursive halving, recursive doubling: members at distances p/2, p/4, ..., 1 split what they
// share in two and each reduces one half; then the same way back. Optimal in bytes like the ring
// and logarithmic in rounds, but partners are far apart. Any n, see fold.h.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", Int. J. High Perform. Comput. Appl. 19 (2005), after Rabenseifner.
//
// Cost on n members with even shares, B = buffer, L = floor(log2 n), p = 2^L, for n = p:
//                   rounds   sent by each    reduced by each
//   reduce_scatter  L        B (n-1)/n       B (n-1)/n
//   allgather       L        B (n-1)/n       0
//   allreduce       2L       2B (n-1)/n      B (n-1)/n
// For other n, of the busiest member, with X = sum over d = 1, 2, ..., p/2 of (d + min(d,n-p))/n,
// which is about 1:
//   reduce_scatter  L+2      B, in B (1 + X) B (1 + X)
//   allgather       L+2      B (X + (n-1)/n) 0
//   allreduce       2L+2     B (1+2(p-1)/p)  B (1 + (p-1)/p)
// Messages: one per level each way; for other n one more, and two more in the allgather. All
// members send L p each way, for other n 2(n-p) more, and 3(n-p) in the allgather.
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int halving_doubling_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares);
int halving_doubling_allgather(Schedule& out, int step, const Group& g, const Shares& shares);
int halving_doubling_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
