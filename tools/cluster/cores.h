// SPDX-License-Identifier: Apache-2.0
// The cores of this machine, and who gets which.
#pragma once

#include <vector>

namespace echelon::cluster {

struct Core {
  int package;
  std::vector<int> cpus;  // hardware threads
};

// The cores this process may run on, package by package, from sysfs.
std::vector<Core> usable_cores();

// The processors of each of several hosts with so many ranks. Where there are cores enough, no core
// serves two hosts, and a host has more of them the more ranks it has. Else a host has one core,
// and hosts share cores so that these have ranks as even as can be.
std::vector<std::vector<int>> share_cores(const std::vector<Core>& cores,
                                          const std::vector<int>& ranks);

}  // namespace echelon::cluster
