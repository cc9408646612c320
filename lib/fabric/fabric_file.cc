// SPDX-License-Identifier: Apache-2.0
// What a fabric file means: by itself (expand) and on top of a discovered fabric (apply).
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/pattern.h"

namespace echelon {
namespace {

enum class Missing { kAdd, kWarn };

class HostIndex {
 public:
  explicit HostIndex(const std::vector<Host>& hosts) : hosts_(hosts) {
    for (std::size_t i = 0; i < hosts.size(); ++i) by_name_[hosts[i].name].push_back(int(i));
  }

  // Hosts that the pattern means, in the order it counts them, else in the fabric's order.
  std::vector<int> find(const std::string& pattern) const {
    std::vector<int> found;
    if (const auto names = echelon::expand(pattern, kMostHosts)) {
      for (const std::string& name : *names)
        if (const auto at = by_name_.find(name); at != by_name_.end())
          found.insert(found.end(), at->second.begin(), at->second.end());
      return found;
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (matches(pattern, hosts_[i].name)) found.push_back(static_cast<int>(i));
    return found;
  }

 private:
  const std::vector<Host>& hosts_;
  std::unordered_map<std::string, std::vector<int>> by_name_;
};

template <typename T>
void replace(std::vector<T>& old, const std::vector<T>& said) {
  if (!said.empty()) old = said;
}

void override_nic(Nic& nic, const Nic& said, HostRule::NicSaid which) {
  if (which.kind) nic.kind = said.kind;
  if (which.up) nic.up = said.up;
  if (said.bytes_per_second.known()) nic.bytes_per_second = said.bytes_per_second;
  if (said.latency.known()) nic.latency = said.latency;
  if (said.numa >= 0) nic.numa = said.numa;
  if (!said.pci.empty()) nic.pci = said.pci;
  replace(nic.addresses, said.addresses);
  if (said.rdma_device.empty()) return;
  nic.rdma_device = said.rdma_device;
  nic.rdma_port = said.rdma_port;
}

void override_nics(Host& host, const HostRule& rule, Missing missing) {
  for (std::size_t i = 0; i < rule.host.nics.size(); ++i) {
    const Nic& said = rule.host.nics[i];
    bool found = false;
    for (Nic& nic : host.nics) {
      const bool rdma = !nic.rdma_device.empty() && matches(said.name, nic.rdma_device);
      if (!rdma && !matches(said.name, nic.name)) continue;
      override_nic(nic, said, rule.nic_said[i]);
      found = true;
    }
    if (found) continue;
    if (missing == Missing::kAdd && !has_wildcard(said.name))
      host.nics.push_back(said);
    else
      host.warnings.push_back(
          fmt::format("the fabric file speaks of nic {}, but host {} has none of that name",
                      said.name, host.name));
  }
}

void override_host(Host& host, const HostRule& rule, Missing missing) {
  if (rule.host.ranks > 0) host.ranks = rule.host.ranks;
  replace(host.packages, rule.host.packages);
  replace(host.numa_nodes, rule.host.numa_nodes);
  replace(host.caches, rule.host.caches);
  replace(host.pci, rule.host.pci);
  replace(host.gpus, rule.host.gpus);
  replace(host.nvswitches, rule.host.nvswitches);
  replace(host.nvlinks, rule.host.nvlinks);
  override_nics(host, rule, missing);
  forget_unknown_speeds(host);
}

std::vector<std::string> rack_names(const FabricFile& file, const RackRule& rule, std::size_t n) {
  const auto names = expand(rule.name, kMostHosts);
  if (names && names->size() == n) return *names;
  throw invalid(
      fmt::format("{}: rack \"{}\" with size {} makes {} racks; expected a pattern of as "
                  "many names",
                  file.file, rule.name, rule.size, n));
}

std::vector<Rack> make_racks(const FabricFile& file, const Fabric& fabric, Missing missing) {
  const HostIndex index(fabric.hosts);
  std::vector<Rack> racks;
  std::vector<int> rack_of(fabric.hosts.size(), -1);
  for (const RackRule& rule : file.racks) {
    std::vector<int> hosts;
    for (const std::string& pattern : rule.hosts)
      for (int h : index.find(pattern)) hosts.push_back(h);
    if (hosts.empty()) continue;
    const std::size_t size = rule.size > 0 ? std::size_t(rule.size) : hosts.size();
    const std::size_t count = (hosts.size() + size - 1) / size;
    std::vector<std::string> names(count, rule.name);
    if (rule.size > 0 && missing == Missing::kAdd) names = rack_names(file, rule, count);
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (i % size == 0) racks.push_back({names[i / size], {}, rule.uplink});
      if (rack_of[hosts[i]] >= 0)
        throw invalid(fmt::format("{}: host {} is in racks {} and {}; expected one", file.file,
                                  fabric.hosts[hosts[i]].name, racks[rack_of[hosts[i]]].name,
                                  rule.name));
      rack_of[hosts[i]] = static_cast<int>(racks.size()) - 1;
      racks.back().hosts.push_back(hosts[i]);
    }
  }
  return racks;
}

void set_racks_and_tiers(const FabricFile& file, Fabric& fabric, Missing missing) {
  if (!file.racks.empty()) fabric.racks = make_racks(file, fabric, missing);
  if (!file.tiers.empty()) fabric.tiers = file.tiers;
  std::sort(fabric.tiers.begin(), fabric.tiers.end(),
            [](const TierNumbers& a, const TierNumbers& b) { return a.tier < b.tier; });
}

// Adds the hosts that the rule counts up and that are new, overrides the others.
void expand_rule(const HostRule& rule, Fabric& fabric,
                 std::unordered_map<std::string, std::size_t>& known) {
  std::vector<std::string> names = expand(rule.match, kMostHosts).value();
  for (std::string& name : names) {
    const auto [at, is_new] = known.try_emplace(name, fabric.hosts.size());
    if (!is_new) {
      override_host(fabric.hosts[at->second], rule, Missing::kAdd);
      continue;
    }
    if (fabric.hosts.size() == kMostHosts)
      throw invalid(fmt::format("more than {} hosts", kMostHosts));
    Host host = rule.host;
    host.name = std::move(name);
    std::erase_if(host.nics, [](const Nic& nic) { return has_wildcard(nic.name); });
    fabric.hosts.push_back(std::move(host));
  }
}

}  // namespace

Fabric expand(const FabricFile& file) {
  Fabric fabric;
  fabric.name = file.name;
  fabric.warnings = file.warnings;
  std::unordered_map<std::string, std::size_t> known;
  for (const HostRule& rule : file.hosts) {
    if (!has_wildcard(rule.match)) {
      expand_rule(rule, fabric, known);
      continue;
    }
    for (Host& host : fabric.hosts)
      if (matches(rule.match, host.name)) override_host(host, rule, Missing::kAdd);
  }
  set_racks_and_tiers(file, fabric, Missing::kAdd);
  return fabric;
}

void apply(const FabricFile& file, Fabric& fabric) {
  if (!file.name.empty()) fabric.name = file.name;
  const HostIndex index(fabric.hosts);
  for (const HostRule& rule : file.hosts)
    for (int h : index.find(rule.match)) override_host(fabric.hosts[h], rule, Missing::kWarn);
  set_racks_and_tiers(file, fabric, Missing::kWarn);
}

FabricFile parse_fabric_file(std::string_view text, std::string_view file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  return read_fabric(json ? parse_json(text, file) : parse_toml(text, file), file);
}

FabricFile load_fabric_file(const std::string& path) {
  return parse_fabric_file(read_file(path), path);
}

}  // namespace echelon
