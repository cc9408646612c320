// SPDX-License-Identifier: Apache-2.0
// A Document (TOML or JSON) to a FabricFile: what every key means and which values it may have.
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/pattern.h"
#include "lib/fabric/quantity.h"

namespace echelon {
namespace {

constexpr std::size_t kMostDevices = 1024;  // of one kind in a host
constexpr double kMostIndex = 1 << 20;

constexpr std::string_view kBandwidthHelp = "a bandwidth such as \"1 gbit/s\" or \"25 GB/s\"";
constexpr std::string_view kTimeHelp = "a time such as \"25 us\" or \"300 ns\"";
constexpr std::string_view kSizeHelp = "a size such as \"512 KiB\"";
constexpr std::string_view kCpusHelp = "a list of cpus such as \"0-3,8\"";
constexpr std::string_view kLinkHelp =
    "one of self, shm, nvlink, pcie, infiniband, roce, ethernet, wan";
constexpr std::string_view kSourceHelp = "one of file, measured, device, default";

// Numbers in a file are the file's unless it says that it only passes them on.
Quantity read_quantity(TableReader& in, std::string_view key, std::string_view expected,
                       std::optional<double> (*parse)(std::string_view)) {
  const std::optional<double> value = in.parsed(key, expected, parse);
  const auto source = in.parsed(std::string(key) + "_source", kSourceHelp, parse_source);
  if (!value) return {};
  return {*value, source.value_or(Source::kFile)};
}

Quantity read_bandwidth(TableReader& in, std::string_view key = "bandwidth") {
  return read_quantity(in, key, kBandwidthHelp, parse_bandwidth);
}

Quantity read_latency(TableReader& in) {
  return read_quantity(in, "latency", kTimeHelp, parse_time);
}

int read_index(TableReader& in, std::string_view key, int otherwise) {
  return static_cast<int>(in.integer(key, -1, kMostIndex).value_or(otherwise));
}

std::vector<CpuSet> read_cpu_sets(TableReader& in, std::string_view key) {
  std::vector<CpuSet> out;
  for (const std::string& list : in.texts(key)) {
    const std::optional<CpuSet> cpus = CpuSet::parse(list);
    if (!cpus) in.fail(key, "\"" + list + "\"", kCpusHelp);
    out.push_back(*cpus);
  }
  return out;
}

CpuSet read_cpus(TableReader& in) {
  return in.parsed("cpus", kCpusHelp, CpuSet::parse).value_or(CpuSet());
}

// The names that a device's pattern stands for; one with wildcards stands for itself. The host
// has `already` devices of the kind.
std::vector<std::string> read_names(TableReader& in, std::size_t already) {
  const std::string pattern = in.text("name").value_or("");
  if (has_wildcard(pattern)) return {pattern};
  const auto names = expand(pattern, kMostDevices);
  if (!names || pattern.empty())
    in.fail("name", "\"" + pattern + "\"", "a name such as \"eth0\" or \"mlx5_[0-7]\"");
  if (already + names->size() > kMostDevices)
    in.fail("name", "too many devices", fmt::format("at most {} of a kind", kMostDevices));
  return *names;
}

void read_package(TableReader& in, Host& host) {
  Package package;
  package.model = in.text("model").value_or("");
  package.cpus = read_cpus(in);
  package.cores = read_cpu_sets(in, "cores");
  host.packages.push_back(std::move(package));
}

void read_numa(TableReader& in, Host& host) {
  NumaNode node;
  node.number = read_index(in, "number", static_cast<int>(host.numa_nodes.size()));
  node.package = read_index(in, "package", -1);
  node.bytes = in.parsed("memory", kSizeHelp, parse_size).value_or(0);
  node.cpus = read_cpus(in);
  if (node.package >= static_cast<int>(host.packages.size()))
    in.fail("package", fmt::format("{}", node.package), "the number of a host.package above");
  host.numa_nodes.push_back(std::move(node));
}

void read_cache(TableReader& in, Host& host) {
  CacheLevel cache;
  cache.level = static_cast<int>(in.integer("level", 1, 9).value_or(1));
  cache.bytes = in.parsed("size", kSizeHelp, parse_size).value_or(0);
  cache.cpus = read_cpu_sets(in, "cpus");
  host.caches.push_back(std::move(cache));
}

std::optional<PciNode::Kind> parse_pci_kind(std::string_view text) {
  if (text == "root") return PciNode::Kind::kRootComplex;
  if (text == "bridge") return PciNode::Kind::kBridge;
  if (text == "device") return PciNode::Kind::kDevice;
  return {};
}

void read_pci(TableReader& in, Host& host) {
  PciNode node;
  node.kind = in.parsed("kind", "one of root, bridge, device", parse_pci_kind)
                  .value_or(PciNode::Kind::kDevice);
  node.address = in.text("address").value_or("");
  node.parent = read_index(in, "parent", -1);
  node.numa = read_index(in, "numa", -1);
  node.bytes_per_second = read_bandwidth(in);
  if (node.parent >= static_cast<int>(host.pci.size()))
    in.fail("parent", fmt::format("{}", node.parent), "the number of a host.pci above");
  host.pci.push_back(std::move(node));
}

void read_nic(TableReader& in, HostRule& rule) {
  Nic nic;
  const auto kind = in.parsed("kind", kLinkHelp, parse_link_kind);
  nic.kind = kind.value_or(LinkKind::kEthernet);
  nic.bytes_per_second = read_bandwidth(in);
  nic.latency = read_latency(in);
  nic.pci = in.text("pci").value_or("");
  nic.numa = read_index(in, "numa", -1);
  nic.addresses = in.texts("addresses");
  nic.rdma_device = in.text("rdma_device").value_or("");
  nic.rdma_port = read_index(in, "rdma_port", 0);
  const std::optional<bool> up = in.flag("up");
  nic.up = up.value_or(true);
  for (std::string& name : read_names(in, rule.host.nics.size())) {
    nic.name = std::move(name);
    rule.host.nics.push_back(nic);
    rule.nic_said.push_back({kind.has_value(), up.has_value()});
  }
}

void read_gpu(TableReader& in, Host& host) {
  Gpu gpu;
  gpu.model = in.text("model").value_or("");
  gpu.pci = in.text("pci").value_or("");
  gpu.numa = read_index(in, "numa", -1);
  gpu.uuid = in.text("uuid").value_or("");
  gpu.fabric_uuid = in.text("fabric_uuid").value_or("");
  gpu.clique = read_index(in, "clique", 0);
  for (std::string& name : read_names(in, host.gpus.size())) {
    gpu.name = std::move(name);
    host.gpus.push_back(gpu);
  }
}

void read_nvswitch(TableReader& in, Host& host) {
  NvSwitch nvswitch;
  nvswitch.pci = in.text("pci").value_or("");
  for (std::string& name : read_names(in, host.nvswitches.size())) {
    nvswitch.name = std::move(name);
    host.nvswitches.push_back(nvswitch);
  }
}

// "gpu 3" where the host has more than 3.
std::optional<NvLinkEnd> parse_end(std::string_view text, const Host& host) {
  const std::pair<std::string_view, std::size_t> kKinds[] = {{"gpu ", host.gpus.size()},
                                                             {"switch ", host.nvswitches.size()},
                                                             {"package ", host.packages.size()}};
  for (int kind = 0; kind < 3; ++kind) {
    const auto [prefix, count] = kKinds[kind];
    if (!text.starts_with(prefix)) continue;
    for (std::size_t i = 0; i < count; ++i)
      if (text.substr(prefix.size()) == fmt::format("{}", i))
        return NvLinkEnd{static_cast<NvLinkEnd::Kind>(kind), static_cast<int>(i)};
  }
  return {};
}

std::vector<NvLinkEnd> read_ends(TableReader& in, std::string_view key, const Host& host) {
  const std::string pattern = in.text(key).value_or("");
  std::vector<NvLinkEnd> ends;
  for (const std::string& text :
       expand(pattern, kMostDevices).value_or(std::vector<std::string>{pattern})) {
    const std::optional<NvLinkEnd> end = parse_end(text, host);
    if (!end)
      in.fail(key, "\"" + text + "\"", "\"gpu 0\", \"switch 1\" or \"package 0\", as above");
    ends.push_back(*end);
  }
  return ends;
}

// Patterns at both ends join each with each; a device is not joined with itself.
void read_nvlink(TableReader& in, Host& host) {
  NvLink link;
  link.count = static_cast<int>(in.integer("count", 0, 1000).value_or(0));
  link.bytes_per_second = read_bandwidth(in);
  const std::vector<NvLinkEnd> from = read_ends(in, "a", host), to = read_ends(in, "b", host);
  if (host.nvlinks.size() + from.size() * to.size() > kMostDevices * 16)
    in.fail("a", "too many links", "at most 16384 in a host");
  for (const NvLinkEnd& a : from)
    for (const NvLinkEnd& b : to) {
      const bool twice = from == to && a.kind == b.kind && a.index >= b.index;
      if (twice || a == b) continue;
      link.a = a;
      link.b = b;
      host.nvlinks.push_back(link);
    }
}

HostRule read_host(TableReader& in) {
  HostRule rule;
  Host& host = rule.host;
  rule.match = in.text("name").value_or("");
  if (rule.match.empty()) in.fail("name", "missing", "a name or pattern such as \"node[0-7]\"");
  if (!has_wildcard(rule.match) && !expand(rule.match, kMostHosts))
    in.fail("name", "\"" + rule.match + "\"",
            fmt::format("a pattern such as \"node[0-7]\" of at most {} names", kMostHosts));
  host.id = in.text("id").value_or("");
  host.ranks = static_cast<int>(in.integer("ranks", 0, kMostIndex).value_or(0));
  host.warnings = in.texts("warnings");
  in.each("package", [&](TableReader& t) { read_package(t, host); });
  in.each("numa", [&](TableReader& t) { read_numa(t, host); });
  in.each("cache", [&](TableReader& t) { read_cache(t, host); });
  in.each("pci", [&](TableReader& t) { read_pci(t, host); });
  in.each("nic", [&](TableReader& t) { read_nic(t, rule); });
  in.each("gpu", [&](TableReader& t) { read_gpu(t, host); });
  in.each("nvswitch", [&](TableReader& t) { read_nvswitch(t, host); });
  in.each("nvlink", [&](TableReader& t) { read_nvlink(t, host); });
  return rule;
}

RackRule read_rack(TableReader& in) {
  RackRule rack;
  rack.name = in.text("name").value_or("");
  rack.hosts = in.texts("hosts");
  rack.uplink = read_bandwidth(in, "uplink");
  rack.size = static_cast<int>(in.integer("size", 1, kMostHosts).value_or(0));
  if (rack.name.empty()) in.fail("name", "missing", "a name such as \"rack0\"");
  if (rack.hosts.empty()) in.fail("hosts", "missing", "host names or patterns");
  return rack;
}

}  // namespace

FabricFile read_fabric(const Document& document, std::string_view file) {
  FabricFile out;
  out.file = file;
  if (document.type != Document::Type::kTable)
    throw invalid(fmt::format("{}: {}; expected a table", file, name(document.type)));
  TableReader in(document, out.file, "");
  out.name = in.text("name").value_or("");
  out.warnings = in.texts("warnings");
  in.each("host", [&](TableReader& t) { out.hosts.push_back(read_host(t)); });
  in.each("rack", [&](TableReader& t) { out.racks.push_back(read_rack(t)); });
  in.each_entry("tier", [&](const std::string& key, TableReader& t) {
    const std::optional<TierKind> tier = parse_tier_kind(key);
    if (!tier) t.fail("", "unknown tier", "one of socket, host, rack, cluster");
    TierNumbers numbers;
    numbers.tier = *tier;
    numbers.kind = t.parsed("kind", kLinkHelp, parse_link_kind);
    numbers.bytes_per_second = read_bandwidth(t);
    numbers.latency = read_latency(t);
    out.tiers.push_back(numbers);
  });
  in.finish();
  return out;
}

}  // namespace echelon
