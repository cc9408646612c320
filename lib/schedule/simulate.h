// SPDX-License-Identifier: Apache-2.0
// How long a schedule takes on given links, for machines that no test has.
//
// Model. Every rank has a clock. A message of step s leaves when both ends have finished their
// steps before s, and takes the link's latency plus the longest of
//   - the time the link needs for all that the step sends from this rank to that one,
//   - for every shared medium that it crosses (a host's NIC, a rack's uplink), the time the medium
//     needs for all that the step sends the same way: what shares it in a step, shares it fairly.
// A rank has finished the step when its messages and calls have ended and it has added what it
// received, at `reduce_bytes_per_second`. Messages of different steps do not disturb each other.
// A group call takes two latencies, plus what its busiest member sends and adds (cost.h).
// There is one segment: the engine's pipelining of segments is not modelled.
#pragma once

#include <functional>
#include <vector>

#include "lib/base/link.h"
#include "lib/schedule/schedule.h"

namespace echelon {

// What the ranks of a domain share to reach other domains, each direction by itself.
struct SharedMedium {
  std::vector<int> domain_of_rank;
  std::vector<double> bytes_per_second;  // by domain; 0: no limit
};

struct Machines {
  int size = 1;  // ranks
  std::function<Link(int from, int to)> link;
  std::vector<SharedMedium> shared;
  double reduce_bytes_per_second = 0;  // 0: additions take no time
};

// Seconds until the last rank is done, all having begun at 0, with a buffer of `bytes`.
double simulate(const Schedule& schedule, double bytes, const Machines& machines);

}  // namespace echelon
