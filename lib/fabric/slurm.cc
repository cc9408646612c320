// SPDX-License-Identifier: Apache-2.0
// Racks from Slurm's topology plugin.
#include <fmt/format.h>

#include <map>

#include "lib/base/error.h"
#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t dot = text.find('.');
    parts.emplace_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace

void add_slurm_racks(Fabric& fabric, const std::vector<std::string>& address_of_host,
                     std::string_view pattern) {
  if (!fabric.racks.empty()) return;
  const std::vector<std::string> kinds = split(pattern);
  if (kinds.back() != "node")
    throw invalid(fmt::format("slurm topology pattern \"{}\"; expected one such as \"switch.node\"",
                              printable(pattern)));
  if (kinds.size() < 2 || kinds[kinds.size() - 2] == "node") return;  // no switches configured
  std::map<std::string, std::size_t> rack_of_switch;
  for (std::size_t h = 0; h < fabric.hosts.size() && h < address_of_host.size(); ++h) {
    const std::vector<std::string> parts = split(address_of_host[h]);
    if (parts.size() != kinds.size()) {
      fabric.warnings.push_back(
          fmt::format("host {}: slurm topology address \"{}\" is not a \"{}\"",
                      fabric.hosts[h].name, printable(address_of_host[h]), printable(pattern)));
      continue;
    }
    const std::string name = printable(parts[parts.size() - 2]);
    const auto [at, is_new] = rack_of_switch.try_emplace(name, fabric.racks.size());
    if (is_new) fabric.racks.push_back({name, {}, {}});
    fabric.racks[at->second].hosts.push_back(static_cast<int>(h));
  }
}

}  // namespace echelon
