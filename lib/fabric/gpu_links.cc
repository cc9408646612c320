// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/gpu_links.h"

#include <algorithm>
#include <map>

#include "lib/fabric/gpu_domains.h"

namespace echelon {
namespace {

// Guesses. Of NVLink as it is in most machines, with the time that a call of NCCL takes to start;
// and of the time until a copy has been started and its end been noticed.
constexpr Link kNvlink{LinkKind::kNvlink, 10e-6, 150e9, Source::kDefault, Source::kDefault};
constexpr double kCopyLatency = 10e-6;

double direct(const Host& host, int a, int b) {
  const NvLinkEnd from{NvLinkEnd::Kind::kGpu, a}, to{NvLinkEnd::Kind::kGpu, b};
  double sum = 0;
  for (const NvLink& link : host.nvlinks)
    if ((link.a == from && link.b == to) || (link.a == to && link.b == from))
      sum += link.bytes_per_second.value;
  return sum;
}

// What leaves `gpu` for the others: on links to each of them, and through switches, by which it
// reaches all with the same links.
double reach(const Host& host, int gpu, std::span<const int> gpus) {
  double links = 0, switches = 0;
  for (int other : gpus) {
    const double to_it = direct(host, gpu, other);
    links += to_it;
    switches = std::max(switches, nvlink_bytes_per_second(host, gpu, other) - to_it);
  }
  return links + switches;
}

// Whether one can go from the first to every other over NVLinks between them.
bool joined_by_nvlink(const Host& host, std::span<const int> gpus) {
  std::vector<int> found{gpus[0]};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (int other : gpus)
      if (std::ranges::find(found, other) == found.end() &&
          nvlink_bytes_per_second(host, found[i], other) > 0)
        found.push_back(other);
  return found.size() == gpus.size();
}

Source source_of_nvlinks(const Host& host) {
  Source worst = Source::kFile;
  for (const NvLink& link : host.nvlinks) worst = std::max(worst, link.bytes_per_second.source);
  return worst;
}

// Whether the lack of a link in the fabric means that there is none.
bool tells_of_nvlinks(const Host& host, std::span<const int> gpus) {
  const auto asked = [&](int gpu) { return !host.gpus[gpu].uuid.empty(); };
  return !host.nvlinks.empty() || std::ranges::all_of(gpus, asked);
}

bool all_known(const Host& host, std::span<const int> gpus) {
  return !gpus.empty() && std::ranges::all_of(gpus, [&](int gpu) {
    return gpu >= 0 && static_cast<std::size_t>(gpu) < host.gpus.size();
  });
}

const Link& slower(const Link& a, const Link& b) {
  return b.bytes_per_second < a.bytes_per_second ? b : a;
}

// Of the ranks' GPUs on every host, in the order of ranks.
std::map<int, std::vector<int>> gpus_by_host(std::span<const RankPlace> places) {
  std::map<int, std::vector<int>> all;
  for (const RankPlace& place : places) all[place.host].push_back(place.gpu);
  return all;
}

// The slowest of all hosts; a guess where one host's is unknown.
Link staging_link(const Fabric& fabric, std::span<const RankPlace> places) {
  Link guess = default_link(LinkKind::kPcie);
  guess.latency = kCopyLatency;
  std::optional<Link> slowest;
  for (const auto& [host, gpus] : gpus_by_host(places)) {
    const Link one = link_to_memory(fabric.hosts[host], gpus).value_or(guess);
    slowest = slowest ? slower(*slowest, one) : one;
  }
  return slowest.value_or(guess);
}

// By which the GPUs of a domain of several hosts reach each other: what the least of them has to
// switches, which join all.
Link link_of_domain(const Fabric& fabric, std::span<const RankPlace> places, const Group& ranks) {
  Link slowest = kNvlink;
  for (int rank : ranks.ranks()) {
    const Host& host = fabric.hosts[places[rank].host];
    const NvLinkEnd gpu{NvLinkEnd::Kind::kGpu, places[rank].gpu};
    Link own = kNvlink;
    own.bytes_per_second = 0;
    for (const NvLink& link : host.nvlinks)
      if ((link.a == gpu && link.b.kind == NvLinkEnd::Kind::kSwitch) ||
          (link.b == gpu && link.a.kind == NvLinkEnd::Kind::kSwitch))
        own.bytes_per_second += link.bytes_per_second.value;
    if (own.bytes_per_second <= 0) return kNvlink;
    own.source = source_of_nvlinks(host);
    slowest = rank == ranks[0] ? own : slower(slowest, own);
  }
  return slowest;
}

// Of the ranks of a group of NCCL.
Link link_of_group(const Fabric& fabric, std::span<const RankPlace> places, const Group& ranks) {
  const int host = places[ranks[0]].host;
  std::vector<int> gpus;
  for (int rank : ranks.ranks()) {
    if (places[rank].host != host) return link_of_domain(fabric, places, ranks);
    gpus.push_back(places[rank].gpu);
  }
  return link_of_gpus(fabric.hosts[host], gpus).value_or(kNvlink);
}

// What the fabric file states of the tier is taken when it is of such a link.
void join_gpus(TierGroup& group, Link link) {
  const bool stated = group.link.kind == LinkKind::kNvlink || group.link.kind == LinkKind::kPcie;
  if (stated && group.link.source == Source::kFile) {
    link.kind = group.link.kind;
    link.bytes_per_second = group.link.bytes_per_second;
    link.source = Source::kFile;
  }
  if (stated && group.link.latency_source == Source::kFile) {
    link.latency = group.link.latency;
    link.latency_source = Source::kFile;
  }
  group.link = link;
}

}  // namespace

std::optional<Link> link_of_gpus(const Host& host, std::span<const int> gpus) {
  if (gpus.size() < 2 || !all_known(host, gpus)) return {};
  Link link = kNvlink;
  if (joined_by_nvlink(host, gpus)) {
    std::vector<double> reaches;
    for (int gpu : gpus) reaches.push_back(reach(host, gpu, gpus));
    link.bytes_per_second = std::ranges::min(reaches);
    link.source = source_of_nvlinks(host);
    return link;
  }
  if (!tells_of_nvlinks(host, gpus)) return {};
  const double latency = link.latency;
  link = link_to_memory(host, gpus).value_or(default_link(LinkKind::kPcie));
  link.latency = latency;
  return link;
}

std::optional<Link> link_to_memory(const Host& host, std::span<const int> gpus) {
  if (!all_known(host, gpus)) return {};
  std::vector<int> users(host.pci.size());  // of every PCI device and bridge, in GPUs
  Link link{LinkKind::kPcie, kCopyLatency, 0, Source::kFile, Source::kDefault};
  const auto narrow = [&](int node) {
    const Quantity& q = host.pci[node].bytes_per_second;
    const double share = q.value / users[node];
    if (!q.known() || (link.bytes_per_second > 0 && share >= link.bytes_per_second)) return;
    link.bytes_per_second = share;
    link.source = q.source;
  };
  for (int gpu : gpus)
    for (int node = find_pci(host, host.gpus[gpu].pci); node >= 0; node = host.pci[node].parent)
      ++users[node];
  for (int gpu : gpus) {
    const int device = find_pci(host, host.gpus[gpu].pci);
    if (device < 0 || !host.pci[device].bytes_per_second.known()) return {};
    narrow(device);
    // The speed that sysfs tells of a bridge above one GPU alone is low while that is idle.
    for (int node = host.pci[device].parent; node >= 0; node = host.pci[node].parent)
      if (users[node] > users[device]) narrow(node);
  }
  return link;
}

Layout layout_of_gpus(Layout layout, const Fabric& fabric, std::span<const RankPlace> places,
                      const GpuUse& use) {
  if (use.domains) {
    const std::vector<Group> domains = gpu_groups(layout, fabric, places, use);
    layout = over_domains(std::move(layout), fabric, domains);
  }
  for (Tier& tier : layout.tiers)
    for (TierGroup& group : tier.groups)
      if (use.native && is_served_as_one(tier.kind))
        join_gpus(group, link_of_group(fabric, places, group.ranks));
  if (use.staged) layout.staging = staging_link(fabric, places);
  const bool apart = !layout.tiers.empty() && !is_served_as_one(layout.tiers.back().kind);
  if (apart && use.joint) layout.joint_call = kNvlink;
  if (apart && !use.joint) layout.no_joint_call = use.no_joint;
  return layout;
}

}  // namespace echelon
