// SPDX-License-Identifier: Apache-2.0
// Ring: every share travels once around, in n-1 steps; all links of the ring are busy in all of
// them. Optimal in bytes, and every message goes to a neighbour; slow in rounds.
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", J. Parallel Distrib. Comput. 69 (2009).
//
// Cost on n members with even shares, B = buffer:
//                   rounds    sent by each    reduced by each
//   reduce_scatter  n-1       B (n-1)/n       B (n-1)/n
//   allgather       n-1       B (n-1)/n       0
//   allreduce       2(n-1)    2B (n-1)/n      B (n-1)/n
// One message per round. When one member owns all it is a chain to, or from, that member: n-1
// rounds, one message of B by each.
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int ring_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares);
int ring_allgather(Schedule& out, int step, const Group& g, const Shares& shares);
int ring_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
