// SPDX-License-Identifier: Apache-2.0
// Collectives over any number of tiers, each with its own algorithm, by composition:
//
//   reduce_scatter(tier 0) ... reduce_scatter(tier T-2)  allreduce(tier T-1)
//   allgather(tier T-2) ... allgather(tier 0)
//
// Groups of one tier may be unequal. After the reduce-scatter of a tier each of its groups holds
// the buffer once, divided among its ranks. The next tier cuts the buffer at the common refinement
// of its children's divisions: every piece then has one owner per child, and is reduced over them.
//
// By leaders, the first ranks of groups, blocks go so, on each tier among the leaders of a group's
// children:
//
//   reduce_scatter  reduce(tier 0) ... reduce(tier T-2)  reduce_scatter(tier T-1)
//                   broadcast(tier T-2) ... broadcast(tier 0), of the group's own blocks
//   allgather       allgather(tier 0) ... allgather(tier T-1), of the group's own blocks
//                   broadcast(tier T-2) ... broadcast(tier 0), of all others
#pragma once

#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "lib/schedule/schedule.h"

namespace echelon {

// How a tier's groups divide the buffer among their ranks.
enum class Ownership {
  kSplit,   // evenly: full bandwidth
  kLeader,  // all to the first rank of each group: fewest messages
};

// One tier: `groups` are disjoint and cover all ranks; each is a union of the tier below's.
struct TierChoice {
  std::vector<Group> groups;
  Algorithm algorithm = Algorithm::kRing;
  std::string name{};  // for people; "": by its number
};

struct Composition {
  ech_collective collective = ECH_ALLREDUCE;  // not ECH_BARRIER
  int size = 1;                               // ranks
  int root = 0;                               // broadcast and reduce
  Ownership ownership = Ownership::kSplit;
  std::vector<TierChoice> tiers;  // innermost first; the last has one group: everybody
};

// The schedule of `composition`. For a `viewer`, only what it takes part in, in the same order as
// in everybody's schedule: both ends of a pair see their messages of a step in the same order.
// Work and memory are then about proportional to what the viewer sees plus the ranks. Units are
// chosen so that all parts are whole units. reduce_scatter and allgather have `size` blocks of
// units()/size, block r belonging to rank r.
// Throws ECH_ERR_INVALID when an algorithm does not support what its tier needs (native: above
// tier 0), and when the tiers are not as said.
Schedule compose(const Composition& composition, int viewer = Schedule::kEveryone);

}  // namespace echelon
