// SPDX-License-Identifier: Apache-2.0
// The algorithms by name, and what every one of them is made of.
//
// An algorithm is a pure function that adds transfers to a Schedule, beginning at `step`, and
// returns the step after its last one. All work on a Group and on Shares: which slices of the
// buffer each member owns after a reduce-scatter, or before an allgather. Shares need not be
// equal; a broadcast is the allgather, and a reduce the reduce-scatter, where one member owns all.
#pragma once

#include <optional>
#include <string_view>

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

enum class Algorithm {
  kNative,             // one call on the group's own engine: "native" ("shm", "nccl")
  kRing,               // "ring"
  kHalvingDoubling,    // "halving_doubling"
  kRecursiveDoubling,  // "recursive_doubling", allreduce only
  kDoubleTree,         // "double_tree"
  kDirect,             // "direct": everybody with everybody, one round each way
  kOneShot,            // "one_shot": everybody everything to everybody, allreduce only
  kBinomial,           // "binomial": trees rooted at the owners
};

inline constexpr Algorithm kAllAlgorithms[] = {
    Algorithm::kNative,          Algorithm::kRing,
    Algorithm::kHalvingDoubling, Algorithm::kRecursiveDoubling,
    Algorithm::kDoubleTree,      Algorithm::kDirect,
    Algorithm::kOneShot,         Algorithm::kBinomial};

std::string_view name(Algorithm algorithm);
std::optional<Algorithm> parse_algorithm(std::string_view text);

// What an algorithm costs on n members, as its header states and a test counts.
struct Cost {
  int rounds = 0;      // steps
  double moved = 0;    // sent, or received where that is more, by the busiest member, in buffers
  double reduced = 0;  // additions by the busiest member, in buffers
  int messages = 0;    // sent, or received where that is more, by the busiest member
  double in_all = 0;   // messages of all members
  // By all members, in buffers: n - 1 in each direction, but in recursive doubling and one shot,
  // whose messages are whole buffers, and in a reduce_scatter by halving, (n - p) / n more.
  double sent = 0;
  double added = 0;    // by all members, in buffers
  double handled = 0;  // sent and received by the busiest member, in buffers
};

// Whether `algorithm` can do `action`; if so, then for any number of members.
bool supports(Algorithm algorithm, GroupAction action);

// Whether among n members it sends in every step what an earlier one of kAllAlgorithms sends, or
// others of its slices, of the same size; that one supports `action`, too.
bool repeats_another(Algorithm algorithm, GroupAction action, int n);

// One collective on one group by `algorithm`, which must support it. kAllreduce reduces and
// spreads the union of the shares; the shares then only say how the work is divided. Returns
// step + cost(...).rounds, whatever the shares and the schedule's viewer.
int add_collective(Schedule& out, int step, Algorithm algorithm, GroupAction action,
                   const Group& group, const Shares& shares);

// With even shares.
Cost cost(Algorithm algorithm, GroupAction action, int n);

// Whether `algorithm` is of use where one member owns all: in a reduce or a broadcast.
bool serves_one_owner(Algorithm algorithm);

// Its cost there; kReduceScatter is the reduce and kAllgather the broadcast.
Cost cost_of_one_owner(Algorithm algorithm, GroupAction action, int n);

}  // namespace echelon
