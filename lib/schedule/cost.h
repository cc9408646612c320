// SPDX-License-Identifier: Apache-2.0
// Counts what a schedule moves. A group call is counted as what must move in any balanced
// implementation of it:
//   reduce_scatter  every member sends every part to its owner, who adds
//   allgather       every owner sends its parts to every other member
//   allreduce       the two in a row, every member owning an equal part
#pragma once

#include <vector>

#include "lib/schedule/schedule.h"

namespace echelon {

// Units, of one rank. Fractions come from group calls only.
struct Traffic {
  double sent = 0;
  double received = 0;
  double reduced = 0;  // additions
  int messages = 0;    // sent; group calls have none
  int arrivals = 0;    // messages received
};

// By rank.
std::vector<Traffic> traffic(const Schedule& schedule, int size);

// The rank that does most of each.
Traffic busiest(const std::vector<Traffic>& ranks);

// Units that leave and enter a domain: a host's NICs, a rack's uplink.
struct CutTraffic {
  double out = 0;
  double in = 0;
};

// By domain; domain_of_rank[r] is in [0, domains).
std::vector<CutTraffic> cut_traffic(const Schedule& schedule,
                                    const std::vector<int>& domain_of_rank);

}  // namespace echelon
