// SPDX-License-Identifier: Apache-2.0
#include "lib/tuning/machine_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/base/join.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/quantity.h"

namespace echelon {
namespace {

using Texts = std::vector<std::string>;

// "2 x a, b": of neighbours that are alike.
std::string runs(const Texts& texts) {
  Texts parts;
  for (std::size_t i = 0; i < texts.size();) {
    const auto end = std::find_if(texts.begin() + static_cast<std::ptrdiff_t>(i), texts.end(),
                                  [&](const std::string& t) { return t != texts[i]; });
    const std::size_t count = static_cast<std::size_t>(end - texts.begin()) - i;
    parts.push_back(count == 1 ? texts[i] : fmt::format("{} x {}", count, texts[i]));
    i += count;
  }
  return joined(parts, ", ");
}

// Those with ranks, by their first one.
std::vector<int> hosts_in_order(std::span<const int> host_of_rank) {
  std::vector<int> hosts;
  for (int host : host_of_rank)
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  return hosts;
}

// "2+2" where each host has successive ranks; else the host of every rank: "0 1 0 1".
std::string ranks_text(std::span<const int> host_of_rank, const std::vector<int>& hosts) {
  std::vector<int> counts;
  for (int host : hosts) counts.push_back(static_cast<int>(std::ranges::count(host_of_rank, host)));
  std::vector<int> numbers;
  for (int host : host_of_rank)
    numbers.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
  return std::ranges::is_sorted(numbers) ? joined(counts, "+") : joined(numbers, " ");
}

// What a file or a device says. What was measured, or a link that has proved slow, is no mark of a
// machine.
std::string speed_text(const Quantity& speed) {
  const bool said = speed.source == Source::kFile || speed.source == Source::kDevice;
  return said && speed.known() ? format_bandwidth(speed.value) : "unknown speed";
}

std::string nics_text(const Host& host) {
  Texts nics;
  for (int i : usable_nics(host)) {
    const Nic& nic = host.nics[static_cast<std::size_t>(i)];
    nics.push_back(fmt::format("{} {}", name(nic.kind), speed_text(nic.bytes_per_second)));
  }
  return nics.empty() ? "none" : joined(nics, " + ");
}

std::string cores_text(const Host& host) {
  std::size_t cores = 0;
  for (const Package& package : host.packages) cores += package.cores.size();
  return fmt::format("{}", cores);
}

std::string cpu_text(const Host& host) {
  Texts models;
  for (const Package& package : host.packages) models.push_back(package.model);
  return models.empty() ? "unknown" : runs(models);
}

std::string rack_text(const Fabric& fabric, int host) {
  for (std::size_t r = 0; r < fabric.racks.size(); ++r)
    if (std::ranges::count(fabric.racks[r].hosts, host) > 0)
      return fmt::format("rack {} of {}", r, speed_text(fabric.racks[r].uplink));
  return "none";
}

// What a fabric file says of them, which plans take before all else.
std::string tiers_text(const Fabric& fabric) {
  Texts tiers;
  for (const TierNumbers& tier : fabric.tiers) {
    std::string text;
    if (tier.kind) text += fmt::format(" {}", name(*tier.kind));
    if (tier.bytes_per_second.source == Source::kFile)
      text += " " + format_bandwidth(tier.bytes_per_second.value);
    if (tier.latency.source == Source::kFile)
      text += fmt::format(" {:.4g} us", tier.latency.value * 1e6);
    if (!text.empty()) tiers.push_back(std::string(name(tier.tier)) + text);
  }
  return tiers.empty() ? "none" : joined(tiers, ", ");
}

}  // namespace

MachineKey machine_key(const Fabric& fabric, std::span<const int> host_of_rank) {
  const std::vector<int> hosts = hosts_in_order(host_of_rank);
  Texts racks, nics, cores, cpus;
  for (int h : hosts) {
    const Host& host = fabric.hosts.at(static_cast<std::size_t>(h));
    racks.push_back(rack_text(fabric, h));
    nics.push_back(nics_text(host));
    cores.push_back(cores_text(host));
    cpus.push_back(cpu_text(host));
  }
  return {{fmt::format("{}", hosts.size()), ranks_text(host_of_rank, hosts), runs(racks),
           runs(nics), tiers_text(fabric), runs(cores), runs(cpus)}};
}

std::string difference(const MachineKey& found, const MachineKey& measured) {
  for (std::size_t i = 0; i < MachineKey::kNames.size(); ++i)
    if (found.texts[i] != measured.texts[i])
      return fmt::format("{} is \"{}\" here, but \"{}\" where it was measured",
                         MachineKey::kNames[i], printable(found.texts[i]),
                         printable(measured.texts[i]));
  return "";
}

}  // namespace echelon
