// SPDX-License-Identifier: Apache-2.0
// What goes wrong in one episode of the soak, drawn from a generator, and doing it.
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/job.h"

namespace echelon::test {

// One thing that is done to one rank or host at one time.
struct Blow {
  enum Kind { kKill, kExit, kStop, kResume, kAbort, kCut, kMend };
  double at;  // s after the start of the episode
  Kind kind;
  int target;  // a rank; of kCut and kMend a host
};

// All of an episode, in order of time. `names` counts the faults by name.
std::vector<Blow> draw_blows(std::mt19937_64& random, const cluster::Cluster& cluster,
                             double seconds, std::map<std::string, int>& names);

// Those ranks that may not come to a good end are added to `lost`.
void strike(const Blow& blow, const cluster::Cluster& cluster, const Job& job, std::set<int>& lost);

}  // namespace echelon::test
