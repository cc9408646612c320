// SPDX-License-Identifier: Apache-2.0
// What a group of ranks does as a whole, without schedules: NCCL, shared memory.
#pragma once

#include <string_view>

namespace echelon {

//  kReduceScatter  every owner gets the reduction of its parts over the group
//  kAllgather      every member gets every part from its owner
//  kAllreduce      every member gets the reduction of all parts (owners are ignored)
// Broadcast is an allgather, and reduce a reduce-scatter, with one owner.
enum class GroupAction { kReduceScatter, kAllgather, kAllreduce };

constexpr std::string_view name(GroupAction action) {
  constexpr std::string_view kNames[] = {"reduce_scatter", "allgather", "allreduce"};
  return kNames[static_cast<int>(action)];
}

}  // namespace echelon
