// SPDX-License-Identifier: Apache-2.0
// Executes a schedule on symbols instead of numbers.
//
// Every rank's input is a symbol; a sum is an expression over them. The buffer is cut at the ends
// of all slices, so the work depends on the number of slices and not on the number of units.
//
// The execution goes step by step for all ranks at once although real ranks have no such barrier.
// It gives the same result: a message carries the sender's data as of the sender's own step, which
// depends on the sender's earlier steps only, and is received in the receiver's same step; so by
// induction over steps every rank has the same data after its step s in any real execution.
//
// What one step may do concurrently is the contract in schedule.h; a breach is an error here.
#pragma once

#include <string>

#include "lib/schedule/schedule.h"

namespace echelon {

// "" when `schedule` (everybody's, not one viewer's) does `collective` on `size` ranks:
//  - ranks, slices and steps are in range, and the transfers of every step may be concurrent
//  - nobody sends what it does not have
//  - afterwards every unit that must be complete has every rank's input exactly once:
//      allreduce       everywhere
//      reduce_scatter  block r of `size` on rank r
//      reduce          on `root`
//    or the right input: allgather (block r of rank r), broadcast (of `root`)
//  - allreduce: the same bits everywhere. All ranks have the same expression, where a sum of two
//    commutes, and a sum of more is taken in the order of its ranks, or its group
// Otherwise what is wrong, in one line.
std::string verify(const Schedule& schedule, ech_collective collective, int size, int root = 0);

}  // namespace echelon
