// SPDX-License-Identifier: Apache-2.0
// What a measurement of plans holds for: how many ranks on which kind of machines, in which order.
// Names of hosts are not part of it: another job on machines of the same kind has others.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "lib/fabric/fabric.h"

namespace echelon {

struct MachineKey {
  // In the order of `texts`.
  static constexpr std::array<std::string_view, 7> kNames = {"hosts", "ranks", "racks", "nics",
                                                             "tiers", "cores", "cpu"};
  std::array<std::string, kNames.size()> texts;

  friend bool operator==(const MachineKey&, const MachineKey&) = default;
};

// `host_of_rank`: indices in fabric.hosts. What was probed, and may differ from run to run, has no
// influence.
MachineKey machine_key(const Fabric& fabric, std::span<const int> host_of_rank);

// "" where they are alike, else the first difference: "nics is \"...\" here, but \"...\" where it
// was measured".
std::string difference(const MachineKey& found, const MachineKey& measured);

}  // namespace echelon
