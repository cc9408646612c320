// SPDX-License-Identifier: Apache-2.0
// Native: one call on the group's own engine (shared memory, NCCL), which knows best.
//
// Cost on n members with even shares, B = buffer, as bytes must move in any implementation that
// balances its members:
//                   rounds   sent by each    reduced by each
//   reduce_scatter  1        B (n-1)/n       B (n-1)/n
//   allgather       1        B (n-1)/n       0
//   allreduce       1        2B (n-1)/n      B (n-1)/n
// When one member owns all, it takes in and reduces B (n-1), or all others take in B each at once.
#pragma once

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

int native_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares);
int native_allgather(Schedule& out, int step, const Group& g, const Shares& shares);
int native_allreduce(Schedule& out, int step, const Group& g, const Shares& shares);

}  // namespace echelon
