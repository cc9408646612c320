// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/fabric.h"

#include <algorithm>
#include <functional>

namespace echelon {
namespace {

// Index of the deepest node above (or at) both, or -1. Parents come before children, so the larger
// index of two different nodes is never an ancestor of the other.
int common_ancestor(const Host& host, int a, int b) {
  while (a >= 0 && b >= 0 && a != b) {
    int& lower = a > b ? a : b;
    lower = host.pci[lower].parent;
  }
  return a == b ? a : -1;
}

Distance numa_distance(int a, int b) {
  if (a < 0 || b < 0) return Distance::kUnknown;
  return a == b ? Distance::kNuma : Distance::kAcross;
}

// The usable NICs for which `far` is smallest.
std::vector<int> nearest(const Host& host, const std::function<Distance(const Nic&)>& far) {
  std::vector<int> found;
  Distance best = Distance::kUnknown;
  for (int i : usable_nics(host)) {
    const Distance d = far(host.nics[i]);
    if (d < best) found.clear();
    best = std::min(best, d);
    if (d == best) found.push_back(i);
  }
  return found;
}

bool is_rdma(LinkKind kind) { return kind == LinkKind::kInfiniband || kind == LinkKind::kRoce; }

// Bandwidth of the NVLinks between `gpu` and every end of `kind`, by that end's index.
std::vector<double> links_of(const Host& host, int gpu, NvLinkEnd::Kind kind) {
  const bool to_gpu = kind == NvLinkEnd::Kind::kGpu;
  std::vector<double> out(to_gpu ? host.gpus.size() : host.nvswitches.size());
  const NvLinkEnd self{NvLinkEnd::Kind::kGpu, gpu};
  for (const NvLink& link : host.nvlinks) {
    if (link.a == self && link.b.kind == kind) out[link.b.index] += link.bytes_per_second.value;
    if (link.b == self && link.a.kind == kind) out[link.a.index] += link.bytes_per_second.value;
  }
  return out;
}

// Whether some switch of `a` has a link to some switch of `b` (nonzero entries).
bool switches_joined(const Host& host, const std::vector<double>& a, const std::vector<double>& b) {
  constexpr auto kSwitch = NvLinkEnd::Kind::kSwitch;
  return std::any_of(host.nvlinks.begin(), host.nvlinks.end(), [&](const NvLink& l) {
    if (l.a.kind != kSwitch || l.b.kind != kSwitch) return false;
    return (a[l.a.index] > 0 && b[l.b.index] > 0) || (a[l.b.index] > 0 && b[l.a.index] > 0);
  });
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double v : values) total += v;
  return total;
}

template <typename Enum, std::size_t N>
std::optional<Enum> parse_name(std::string_view text, const Enum (&all)[N]) {
  for (Enum e : all)
    if (name(e) == text) return e;
  return {};
}

}  // namespace

Quantity better(Quantity a, Quantity b) {
  if (!b.known()) return a;
  return !a.known() || b.source < a.source ? b : a;
}

std::string_view name(Distance distance) {
  constexpr std::string_view kNames[] = {"same", "switch", "root complex",
                                         "numa", "across", "unknown"};
  return kNames[static_cast<int>(distance)];
}

int find_pci(const Host& host, std::string_view address) {
  for (std::size_t i = 0; i < host.pci.size(); ++i)
    if (!address.empty() && host.pci[i].address == address) return static_cast<int>(i);
  return -1;
}

Distance distance(const Host& host, std::string_view pci_a, std::string_view pci_b) {
  const int a = find_pci(host, pci_a);
  const int b = find_pci(host, pci_b);
  if (a < 0 || b < 0) return Distance::kUnknown;
  if (a == b) return Distance::kSame;
  const int above = common_ancestor(host, a, b);
  if (above < 0) return numa_distance(host.pci[a].numa, host.pci[b].numa);
  const bool root = host.pci[above].kind == PciNode::Kind::kRootComplex;
  return root ? Distance::kRootComplex : Distance::kSwitch;
}

Distance distance(const Host& host, const CpuSet& cpus, int numa) {
  if (cpus.empty()) return Distance::kUnknown;
  for (const NumaNode& node : host.numa_nodes)
    if (node.number == numa && !node.cpus.empty())
      return node.cpus.intersects(cpus) ? Distance::kNuma : Distance::kAcross;
  return Distance::kUnknown;
}

int numa_of_package(const Host& host, int package) {
  for (const NumaNode& node : host.numa_nodes)
    if (package >= 0 && node.package == package) return node.number;
  return -1;
}

int package_of(const Host& host, const CpuSet& cpus) {
  int found = -1;
  for (std::size_t i = 0; i < host.packages.size(); ++i) {
    if (!host.packages[i].cpus.intersects(cpus)) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

int package_of_numa(const Host& host, int numa) {
  for (const NumaNode& node : host.numa_nodes)
    if (node.number == numa) return node.package;
  return -1;
}

std::vector<int> usable_nics(const Host& host) {
  const auto& nics = host.nics;
  const bool addressed =
      std::any_of(nics.begin(), nics.end(), [](const Nic& n) { return !n.addresses.empty(); });
  std::vector<int> found;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const bool reachable = !addressed || !nics[i].addresses.empty() || !nics[i].rdma_device.empty();
    if (nics[i].up && reachable) found.push_back(static_cast<int>(i));
  }
  const auto drop = [&](auto condition) { std::erase_if(found, condition); };
  const bool rdma =
      std::any_of(found.begin(), found.end(), [&](int i) { return is_rdma(nics[i].kind); });
  if (rdma) drop([&](int i) { return !is_rdma(nics[i].kind); });
  double fastest = 0;
  for (int i : found) fastest = std::max(fastest, link_of(nics[i]).bytes_per_second);
  drop([&](int i) { return link_of(nics[i]).bytes_per_second < fastest / 2; });
  return found;
}

std::vector<int> nearest_nics(const Host& host, int gpu) {
  const Gpu& device = host.gpus.at(gpu);
  return nearest(host, [&](const Nic& nic) {
    const Distance d = distance(host, device.pci, nic.pci);
    return d != Distance::kUnknown ? d : numa_distance(device.numa, nic.numa);
  });
}

std::vector<int> nearest_nics(const Host& host, const CpuSet& cpus) {
  return nearest(host, [&](const Nic& nic) { return distance(host, cpus, nic.numa); });
}

double nvlink_bytes_per_second(const Host& host, int gpu_a, int gpu_b) {
  constexpr auto kSwitch = NvLinkEnd::Kind::kSwitch;
  if (gpu_a == gpu_b) return 0;
  const double direct = links_of(host, gpu_a, NvLinkEnd::Kind::kGpu)[gpu_b];
  const std::vector<double> a = links_of(host, gpu_a, kSwitch);
  const std::vector<double> b = links_of(host, gpu_b, kSwitch);
  double shared = 0;
  for (std::size_t s = 0; s < a.size(); ++s) shared += std::min(a[s], b[s]);
  if (shared == 0 && switches_joined(host, a, b)) shared = std::min(sum(a), sum(b));
  return direct + shared;
}

void add_measured(Fabric& fabric, const std::vector<TierNumbers>& measured) {
  const auto replace = [](Quantity& known, const Quantity& by) {
    if (!known.known() || known.source > Source::kFile) known = by;
  };
  for (const TierNumbers& numbers : measured) {
    auto at = std::ranges::find(fabric.tiers, numbers.tier, &TierNumbers::tier);
    if (at == fabric.tiers.end()) at = fabric.tiers.insert(at, {numbers.tier, {}, {}, {}});
    replace(at->bytes_per_second, numbers.bytes_per_second);
    replace(at->latency, numbers.latency);
  }
}

Link default_link(LinkKind kind) {
  switch (kind) {
    case LinkKind::kSelf:
    case LinkKind::kShm:
      return {kind, 0.3e-6, 10e9, Source::kDefault};
    case LinkKind::kNvlink:
      return {kind, 2e-6, 25e9, Source::kDefault};
    case LinkKind::kPcie:
      return {kind, 1e-6, 12e9, Source::kDefault};
    case LinkKind::kInfiniband:
      return {kind, 1.5e-6, 12.5e9, Source::kDefault};
    case LinkKind::kRoce:
      return {kind, 2e-6, 3.125e9, Source::kDefault};
    case LinkKind::kEthernet:
      return {kind, 20e-6, 0.125e9, Source::kDefault};
    case LinkKind::kWan:
      return {kind, 10e-3, 0.125e9, Source::kDefault};
  }
  return {};
}

Link link_of(const Nic& nic) {
  Link link = default_link(nic.kind);
  if (nic.latency.known()) {
    link.latency = nic.latency.value;
    link.latency_source = nic.latency.source;
  }
  if (nic.bytes_per_second.known()) {
    link.bytes_per_second = nic.bytes_per_second.value;
    link.source = nic.bytes_per_second.source;
  }
  return link;
}

std::optional<LinkKind> parse_link_kind(std::string_view text) {
  constexpr LinkKind kAll[] = {LinkKind::kSelf,     LinkKind::kShm,        LinkKind::kNvlink,
                               LinkKind::kPcie,     LinkKind::kInfiniband, LinkKind::kRoce,
                               LinkKind::kEthernet, LinkKind::kWan};
  return parse_name(text, kAll);
}

std::optional<Source> parse_source(std::string_view text) {
  constexpr Source kAll[] = {Source::kFile, Source::kMeasured, Source::kDevice, Source::kDefault};
  return parse_name(text, kAll);
}

}  // namespace echelon
