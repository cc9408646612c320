// SPDX-License-Identifier: Apache-2.0
// A Fabric to a Document, with every fact and source, such that reading it back gives an equal one.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/quantity.h"

namespace echelon {
namespace {

void add_text(Document& out, const char* key, const std::string& value) {
  if (!value.empty()) out.add(key, Document::of(value));
}

void add_number(Document& out, const char* key, double value, double unsaid) {
  if (value != unsaid) out.add(key, Document::of(value));
}

void add_quantity(Document& out, const std::string& key, Quantity q, std::string text) {
  if (!q.known()) return;
  out.add(key, Document::of(std::move(text)));
  if (q.source != Source::kFile)
    out.add(key + "_source", Document::of(std::string(name(q.source))));
}

void add_bandwidth(Document& out, Quantity q, const char* key = "bandwidth") {
  add_quantity(out, key, q, format_bandwidth(q.value));
}

void add_latency(Document& out, Quantity q) {
  add_quantity(out, "latency", q, format_time(q.value));
}

void add_texts(Document& out, const char* key, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  Document list = Document::list();
  for (const std::string& text : texts) list.add(Document::of(text));
  out.add(key, std::move(list));
}

void add_cpu_sets(Document& out, const char* key, const std::vector<CpuSet>& sets) {
  std::vector<std::string> texts;
  for (const CpuSet& set : sets) texts.push_back(set.list());
  add_texts(out, key, texts);
}

// A list of tables, one per item.
template <typename T, typename Write>
void add_tables(Document& out, const char* key, const std::vector<T>& items, Write write) {
  if (items.empty()) return;
  Document list = Document::list();
  for (const T& item : items) {
    Document table = Document::table();
    write(table, item);
    list.add(std::move(table));
  }
  out.add(key, std::move(list));
}

void write_package(Document& out, const Package& package) {
  add_text(out, "model", package.model);
  add_text(out, "cpus", package.cpus.list());
  add_cpu_sets(out, "cores", package.cores);
}

void write_numa(Document& out, const NumaNode& node) {
  out.add("number", Document::of(double(node.number)));
  add_number(out, "package", node.package, -1);
  if (node.bytes > 0) add_text(out, "memory", format_size(node.bytes));
  add_text(out, "cpus", node.cpus.list());
}

void write_cache(Document& out, const CacheLevel& cache) {
  out.add("level", Document::of(double(cache.level)));
  if (cache.bytes > 0) add_text(out, "size", format_size(cache.bytes));
  add_cpu_sets(out, "cpus", cache.cpus);
}

void write_pci(Document& out, const PciNode& node) {
  constexpr const char* kKinds[] = {"root", "bridge", "device"};
  add_text(out, "kind", kKinds[static_cast<int>(node.kind)]);
  add_text(out, "address", node.address);
  add_number(out, "parent", node.parent, -1);
  add_number(out, "numa", node.numa, -1);
  add_bandwidth(out, node.bytes_per_second);
}

void write_nic(Document& out, const Nic& nic) {
  add_text(out, "name", nic.name);
  add_text(out, "kind", std::string(name(nic.kind)));
  add_bandwidth(out, nic.bytes_per_second);
  add_latency(out, nic.latency);
  add_text(out, "pci", nic.pci);
  add_number(out, "numa", nic.numa, -1);
  add_texts(out, "addresses", nic.addresses);
  add_text(out, "rdma_device", nic.rdma_device);
  add_number(out, "rdma_port", nic.rdma_port, 0);
  if (!nic.up) out.add("up", Document::of(false));
}

void write_gpu(Document& out, const Gpu& gpu) {
  add_text(out, "name", gpu.name);
  add_text(out, "model", gpu.model);
  add_text(out, "pci", gpu.pci);
  add_number(out, "numa", gpu.numa, -1);
  add_text(out, "uuid", gpu.uuid);
  add_text(out, "fabric_uuid", gpu.fabric_uuid);
  add_number(out, "clique", gpu.clique, 0);
}

std::string end_text(const NvLinkEnd& end) {
  constexpr const char* kKinds[] = {"gpu", "switch", "package"};
  return fmt::format("{} {}", kKinds[static_cast<int>(end.kind)], end.index);
}

void write_nvlink(Document& out, const NvLink& link) {
  add_text(out, "a", end_text(link.a));
  add_text(out, "b", end_text(link.b));
  add_number(out, "count", link.count, 0);
  add_bandwidth(out, link.bytes_per_second);
}

void write_host(Document& out, const Host& host) {
  add_text(out, "name", host.name);
  add_text(out, "id", host.id);
  add_number(out, "ranks", host.ranks, 0);
  add_texts(out, "warnings", host.warnings);
  add_tables(out, "package", host.packages, write_package);
  add_tables(out, "numa", host.numa_nodes, write_numa);
  add_tables(out, "cache", host.caches, write_cache);
  add_tables(out, "pci", host.pci, write_pci);
  add_tables(out, "nic", host.nics, write_nic);
  add_tables(out, "gpu", host.gpus, write_gpu);
  add_tables(out, "nvswitch", host.nvswitches, [](Document& table, const NvSwitch& s) {
    add_text(table, "name", s.name);
    add_text(table, "pci", s.pci);
  });
  add_tables(out, "nvlink", host.nvlinks, write_nvlink);
}

Document tiers_document(const Fabric& fabric) {
  Document tiers = Document::table();
  for (const TierNumbers& numbers : fabric.tiers) {
    Document table = Document::table();
    if (numbers.kind) add_text(table, "kind", std::string(name(*numbers.kind)));
    add_bandwidth(table, numbers.bytes_per_second);
    add_latency(table, numbers.latency);
    tiers.add(std::string(name(numbers.tier)), std::move(table));
  }
  return tiers;
}

}  // namespace

Document to_document(const Fabric& fabric) {
  Document out = Document::table();
  add_text(out, "name", fabric.name);
  add_texts(out, "warnings", fabric.warnings);
  add_tables(out, "host", fabric.hosts, write_host);
  add_tables(out, "rack", fabric.racks, [&](Document& table, const Rack& rack) {
    add_text(table, "name", rack.name);
    std::vector<std::string> names;
    for (int h : rack.hosts) names.push_back(fabric.hosts.at(h).name);
    add_texts(table, "hosts", names);
    add_bandwidth(table, rack.uplink, "uplink");
  });
  if (!fabric.tiers.empty()) out.add("tier", tiers_document(fabric));
  return out;
}

std::string to_toml(const Fabric& fabric) { return write_toml(to_document(fabric)); }
std::string to_json(const Fabric& fabric) { return write_json(to_document(fabric)) + "\n"; }

std::string to_wire(const Host& host) {
  Fabric fabric;
  fabric.hosts.push_back(host);
  return write_json(to_document(fabric), true);
}

Host host_from_wire(std::string_view bytes) {
  if (bytes.size() > kMostWireBytes)
    throw invalid(fmt::format("host description: {} bytes; expected at most {}", bytes.size(),
                              kMostWireBytes));
  const FabricFile file = read_fabric(parse_json(bytes, "host description"), "host description");
  if (file.hosts.size() != 1 || !file.racks.empty() || !file.tiers.empty())
    throw invalid(fmt::format("host description: {} hosts; expected one and nothing else",
                              file.hosts.size()));
  Host host = file.hosts[0].host;
  host.name = file.hosts[0].match;
  return host;
}

}  // namespace echelon
