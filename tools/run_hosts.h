// SPDX-License-Identifier: Apache-2.0
// Host lists and where each rank goes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace echelon::run {

struct HostSlots {
  std::string name;
  int slots = 1;
};

// "a:2,b:4,c" (one slot where none is given). Throws ECH_ERR_INVALID naming the entry.
std::vector<HostSlots> parse_host_list(std::string_view text);

// One host per line: "name", "name:4" or "name slots=4"; "#" begins a comment. `name` is the
// file's, for messages.
std::vector<HostSlots> parse_hostfile(std::string_view text, std::string_view name);

enum class Placement { kBySlot, kByHost };

// The ranks of each host, ascending. By slot: a host is filled before the next; by host: round
// robin. n = 0 means every slot. Throws ECH_ERR_INVALID when n ranks do not fit.
std::vector<std::vector<int>> place(const std::vector<HostSlots>& hosts, int n,
                                    Placement placement);

}  // namespace echelon::run
