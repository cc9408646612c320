// SPDX-License-Identifier: Apache-2.0
// The cores of this machine, and who gets which.
#pragma once

#include <vector>

namespace echelon::cluster {

struct Core {
  int package;
  std::vector<int> cpus;  // hardware threads
};

// The cores this process may run on, package by package, from sysfs; all its processors are one
// core where that knows of none. Throws ECH_ERR_SYSTEM where the affinity cannot be read.
std::vector<Core> usable_cores();

// The processors of each of several hosts with so many ranks; `cores` has one at least. Where there
// are cores enough, no core serves two hosts: all are given away, one by one to who has the most
// ranks per core, of those alike to the first. So hosts of as many ranks have as many cores where
// these are a multiple. Else a host has one core, the largest first where the fewest ranks are.
std::vector<std::vector<int>> share_cores(const std::vector<Core>& cores,
                                          const std::vector<int>& ranks);

}  // namespace echelon::cluster
