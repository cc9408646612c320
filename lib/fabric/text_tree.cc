// SPDX-License-Identifier: Apache-2.0
// A Fabric as a tree for people: cluster, racks, hosts, sockets, devices, ranks.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/join.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/quantity.h"

namespace echelon {
namespace {

std::string plural(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string sourced(double bytes_per_second, Source source, bool bits) {
  return fmt::format("{} ({})", show_bandwidth(bytes_per_second, bits), name(source));
}

// "4 to gpus 100 GB/s (device), 6 to switches 150 GB/s (device)"; "" where there are none.
std::string links_text(const Host& host, int gpu) {
  constexpr std::string_view kEnds[] = {"gpus", "switches", "cpus"};
  const NvLinkEnd self{NvLinkEnd::Kind::kGpu, gpu};
  std::string text;
  for (int kind = 0; kind < 3; ++kind) {
    int count = 0;
    Quantity all{0, Source::kFile};
    for (const NvLink& link : host.nvlinks) {
      const bool from = link.a == self, to = link.b == self;
      const auto end = static_cast<NvLinkEnd::Kind>(kind);
      if ((!from || link.b.kind != end) && (!to || link.a.kind != end)) continue;
      count += link.count;
      all.value += link.bytes_per_second.value;
      all.source = std::max(all.source, link.bytes_per_second.source);
    }
    if (!all.known()) continue;
    text += fmt::format("{}{}to {} {}", text.empty() ? "" : ", ",
                        count > 0 ? fmt::format("{} ", count) : "", kEnds[kind],
                        sourced(all.value, all.source, false));
  }
  return text;
}

class Writer {
 public:
  Writer(const Fabric& fabric, std::span<const RankPlace> places) : fabric_(fabric) {
    ranks_of_host_.resize(fabric.hosts.size());
    for (std::size_t r = 0; r < places.size(); ++r)
      if (const auto h = static_cast<std::size_t>(places[r].host); h < ranks_of_host_.size())
        ranks_of_host_[h].push_back(static_cast<int>(r));
    rank_count_ = places.size();
    places_ = places;
  }

  std::string write();

 private:
  void line(int depth, std::string_view text) {
    out_ += fmt::format("{:{}}{}\n", "", 2 * depth, text);
  }
  void hosts(int depth, const std::vector<int>& indices);
  bool alike(int a, int b) const;
  void host(int depth, int index, const std::string& title);
  void packages(int depth, const Host& host, const std::vector<int>& ranks);
  void numa(int depth, const NumaNode& node);
  void caches(int depth, const Host& host);
  void nics(int depth, const Host& host);
  void gpus(int depth, const Host& host);
  void nvlinks(int depth, const Host& host);
  bool is_answered(const Host& host, const std::string& warning) const;

  const Fabric& fabric_;
  std::span<const RankPlace> places_;
  std::vector<std::vector<int>> ranks_of_host_;
  std::size_t rank_count_ = 0;
  std::string out_;
};

std::string Writer::write() {
  std::string title = "cluster";
  if (!fabric_.name.empty()) title += " " + fabric_.name;
  title += ": " + plural(fabric_.hosts.size(), "host");
  if (rank_count_ > 0) title += ", " + plural(rank_count_, "rank");
  line(0, title);
  std::vector<bool> in_rack(fabric_.hosts.size());
  for (const Rack& rack : fabric_.racks) {
    const std::string uplink =
        rack.uplink.known() ? sourced(rack.uplink.value, rack.uplink.source, true) : "unknown";
    line(1, fmt::format("rack {}: {}, uplink {}", rack.name, plural(rack.hosts.size(), "host"),
                        uplink));
    for (int h : rack.hosts) in_rack[h] = true;
    hosts(2, rack.hosts);
  }
  std::vector<int> others;
  for (std::size_t h = 0; h < in_rack.size(); ++h)
    if (!in_rack[h]) others.push_back(static_cast<int>(h));
  hosts(1, others);
  for (const TierNumbers& tier : fabric_.tiers) {
    std::string text = fmt::format("tier {}:", name(tier.tier));
    if (tier.kind) text += fmt::format(" {}", name(*tier.kind));
    if (const Quantity q = tier.bytes_per_second; q.known())
      text += " " + sourced(q.value, q.source, false);
    if (const Quantity q = tier.latency; q.known())
      text += fmt::format(" {} ({})", show_time(q.value), name(q.source));
    line(1, text);
  }
  for (const std::string& warning : fabric_.warnings) line(1, "warning: " + warning);
  return std::move(out_);
}

bool Writer::alike(int a, int b) const {
  if (rank_count_ > 0) return false;
  Host x = fabric_.hosts[a], y = fabric_.hosts[b];
  x.name = y.name = "";
  x.id = y.id = "";
  return x == y;
}

// Runs of equal hosts are shown once.
void Writer::hosts(int depth, const std::vector<int>& indices) {
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t end = i + 1;
    while (end < indices.size() && alike(indices[i], indices[end])) ++end;
    const std::string& first = fabric_.hosts[indices[i]].name;
    const std::string title = end - i == 1 ? "host " + first
                                           : fmt::format("{} hosts, {} to {}, each", end - i, first,
                                                         fabric_.hosts[indices[end - 1]].name);
    host(depth, indices[i], title);
    i = end;
  }
}

void Writer::host(int depth, int index, const std::string& title) {
  const Host& host = fabric_.hosts[index];
  std::vector<std::string> facts;
  const std::vector<int>& ranks = ranks_of_host_[index];
  if (!host.packages.empty()) facts.push_back(plural(host.packages.size(), "socket"));
  if (!host.gpus.empty()) facts.push_back(plural(host.gpus.size(), "gpu"));
  facts.push_back(plural(host.nics.size(), "nic"));
  if (!ranks.empty()) facts.push_back(plural(ranks.size(), "rank"));
  if (ranks.empty() && host.ranks > 0)
    facts.push_back(
        fmt::format("room for {}", plural(static_cast<std::size_t>(host.ranks), "rank")));
  line(depth, fmt::format("{}: {}", title, joined(facts, ", ")));
  packages(depth + 1, host, ranks);
  caches(depth + 1, host);
  nics(depth + 1, host);
  gpus(depth + 1, host);
  nvlinks(depth + 1, host);
  std::vector<int> unbound;
  for (int r : ranks)
    if (places_[r].package < 0 && package_of(host, places_[r].cpus) < 0) unbound.push_back(r);
  if (!unbound.empty()) line(depth + 1, fmt::format("ranks on any cpu: {}", joined(unbound, " ")));
  for (const std::string& warning : host.warnings)
    if (!is_answered(host, warning)) line(depth + 1, "warning: " + warning);
}

// What the device does not say does not matter once the network has been measured.
bool Writer::is_answered(const Host& host, const std::string& warning) const {
  const bool measured = std::ranges::any_of(fabric_.tiers, [](const TierNumbers& tier) {
    const bool network = tier.tier == TierKind::kRack || tier.tier == TierKind::kCluster;
    return network && tier.bytes_per_second.source == Source::kMeasured;
  });
  return measured && std::ranges::any_of(host.nics, [&](const Nic& nic) {
           return warning.starts_with(speed_unknown(nic.name) + ",");
         });
}

void Writer::packages(int depth, const Host& host, const std::vector<int>& ranks) {
  for (std::size_t p = 0; p < host.packages.size(); ++p) {
    const Package& package = host.packages[p];
    std::string text = fmt::format("socket {}:", p);
    if (!package.model.empty()) text += " " + package.model + ",";
    if (!package.cores.empty()) text += " " + plural(package.cores.size(), "core") + ",";
    text += package.cpus.empty() ? " cpus unknown" : " cpus " + package.cpus.list();
    line(depth, text);
    for (const NumaNode& node : host.numa_nodes)
      if (node.package == static_cast<int>(p)) numa(depth + 1, node);
    std::vector<int> here;
    for (int r : ranks) {
      const int of =
          places_[r].package >= 0 ? places_[r].package : package_of(host, places_[r].cpus);
      if (of == static_cast<int>(p)) here.push_back(r);
    }
    if (!here.empty()) line(depth + 1, fmt::format("ranks: {}", joined(here, " ")));
  }
  for (const NumaNode& node : host.numa_nodes)
    if (node.package < 0) numa(depth, node);
}

void Writer::numa(int depth, const NumaNode& node) {
  std::string text = fmt::format("numa {}:", node.number);
  if (node.bytes > 0)
    text += fmt::format(" {:.1f} GiB,", static_cast<double>(node.bytes) / (1 << 30));
  line(depth, text + " cpus " + (node.cpus.empty() ? "unknown" : node.cpus.list()));
}

void Writer::caches(int depth, const Host& host) {
  std::vector<std::string> texts;
  for (const CacheLevel& cache : host.caches)
    texts.push_back(
        fmt::format("L{} {} x {}", cache.level, cache.cpus.size(), format_size(cache.bytes)));
  if (!texts.empty()) line(depth, fmt::format("caches: {}", joined(texts, ", ")));
}

void Writer::nics(int depth, const Host& host) {
  const std::vector<int> usable = usable_nics(host);
  for (std::size_t i = 0; i < host.nics.size(); ++i) {
    const Nic& nic = host.nics[i];
    const Link link = link_of(nic);
    std::string text =
        fmt::format("nic {}: {}, {}, {}", nic.name, name(nic.kind),
                    sourced(link.bytes_per_second, link.source, true), show_time(link.latency));
    text += fmt::format(" ({})", name(nic.latency.known() ? nic.latency.source : Source::kDefault));
    if (!nic.rdma_device.empty())
      text += fmt::format(", rdma {}:{}", nic.rdma_device, nic.rdma_port);
    if (!nic.pci.empty() && nic.pci != nic.name) text += ", pci " + nic.pci;
    if (nic.numa >= 0) text += fmt::format(", numa {}", nic.numa);
    if (!nic.addresses.empty()) text += fmt::format(", {}", joined(nic.addresses, " "));
    const bool used = std::find(usable.begin(), usable.end(), static_cast<int>(i)) != usable.end();
    if (!nic.up) text += ", down";
    if (nic.up && !used) text += ", not used";
    line(depth, text);
  }
}

void Writer::gpus(int depth, const Host& host) {
  for (std::size_t i = 0; i < host.gpus.size(); ++i) {
    const Gpu& gpu = host.gpus[i];
    std::string text = "gpu " + gpu.name + ":";
    if (!gpu.model.empty()) text += " " + gpu.model + ",";
    if (!gpu.uuid.empty()) text += " " + gpu.uuid + ",";
    if (!gpu.pci.empty()) text += " pci " + gpu.pci + ",";
    if (gpu.numa >= 0) text += fmt::format(" numa {},", gpu.numa);
    std::vector<std::string> near;
    for (int n : nearest_nics(host, static_cast<int>(i))) near.push_back(host.nics[n].name);
    text += near.empty() ? " no nic" : fmt::format(" nearest nic {}", joined(near, " "));
    if (!gpu.fabric_uuid.empty())
      text += fmt::format(", nvlink fabric {} clique {}", gpu.fabric_uuid, gpu.clique);
    if (const std::string links = links_text(host, static_cast<int>(i)); !links.empty())
      text += ", nvlinks: " + links;
    line(depth, text);
  }
  if (!host.nvswitches.empty()) line(depth, fmt::format("nvswitches: {}", host.nvswitches.size()));
}

// One line per different bandwidth between two GPUs.
void Writer::nvlinks(int depth, const Host& host) {
  std::vector<std::pair<double, std::vector<std::string>>> by_speed;
  const int n = static_cast<int>(host.gpus.size());
  for (int a = 0; a < n && !host.nvlinks.empty(); ++a)
    for (int b = a + 1; b < n; ++b) {
      const double speed = nvlink_bytes_per_second(host, a, b);
      if (speed == 0) continue;
      auto at = std::find_if(by_speed.begin(), by_speed.end(),
                             [&](const auto& entry) { return entry.first == speed; });
      if (at == by_speed.end()) at = by_speed.insert(at, {speed, {}});
      at->second.push_back(fmt::format("{}-{}", a, b));
    }
  const std::size_t pairs = static_cast<std::size_t>(n) * static_cast<std::size_t>(n - 1) / 2;
  for (const auto& [speed, names] : by_speed)
    line(depth, fmt::format("nvlink {}: {}", show_bandwidth(speed, false),
                            names.size() == pairs ? "every pair of gpus"
                                                  : fmt::format("gpus {}", joined(names, " "))));
}

}  // namespace

std::string to_text(const Fabric& fabric, std::span<const RankPlace> places) {
  return Writer(fabric, places).write();
}

}  // namespace echelon
