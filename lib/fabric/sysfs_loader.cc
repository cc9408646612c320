// SPDX-License-Identifier: Apache-2.0
// NICs and RDMA ports as Linux shows them under /sys/class. The root is a parameter, so that tests
// and gathered trees of other machines work as well.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

namespace fs = std::filesystem;

constexpr int kTypeEthernet = 1, kTypeInfiniband = 32;  // ARPHRD_*
constexpr double kMostMbits = 1e7;                      // 10 Tbit/s
constexpr std::size_t kMostNics = 1024;

// The first line of a small file; "" when there is none.
std::string read_line(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line(256, '\0');
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return line.substr(0, line.find('\n'));
}

// The number at the front of a file's text, finite.
std::optional<double> read_number(const fs::path& path) {
  const std::string text = read_line(path);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return {};
  return value;
}

// The same from `least` to `most`.
std::optional<int> read_index(const fs::path& path, int least, int most) {
  const std::optional<double> value = read_number(path);
  if (!value || *value < least || *value > most) return {};
  return static_cast<int>(*value);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Entries of a directory in numeric-friendly order ("eth2" before "eth10"); none if unreadable.
std::vector<std::string> entries(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
    if (names.size() >= kMostNics) break;
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

struct Place {
  std::string pci;
  int numa = -1;
};

// The nearest PCI device above `device` and its NUMA node.
Place place_of(const fs::path& device) {
  std::error_code error;
  fs::path real = fs::canonical(device, error);
  if (error) return {};
  for (int up = 0; up < 8 && real.has_relative_path(); ++up, real = real.parent_path()) {
    std::string pci = normal_pci_address(real.filename().string());
    if (pci.empty()) continue;
    return {std::move(pci), read_index(real / "numa_node", 0, 1 << 20).value_or(-1)};
  }
  return {};
}

bool is_nic(const std::string& name, const fs::path& dir) {
  const double type = read_number(dir / "type").value_or(0);
  if (type != kTypeEthernet && type != kTypeInfiniband) return false;
  for (const char* mark : {"bridge", "brport", "tun_flags", "bonding_slave"})
    if (is_there(dir / mark)) return false;
  return !name.starts_with("ifb") && !name.starts_with("dummy");
}

Nic& nic_called(Host& host, const std::string& name) {
  for (Nic& nic : host.nics)
    if (nic.name == name) return nic;
  host.nics.emplace_back();
  host.nics.back().name = name;
  return host.nics.back();
}

void set_place(Nic& nic, const Place& place) {
  if (nic.pci.empty()) nic.pci = place.pci;
  if (nic.numa < 0) nic.numa = place.numa;
}

void set_speed(Host& host, Nic& nic, const fs::path& dir) {
  const std::optional<double> mbits = read_number(dir / "speed");
  if (mbits && *mbits > 0 && *mbits <= kMostMbits) {
    nic.bytes_per_second = better(nic.bytes_per_second, {*mbits * 1.25e5, Source::kDevice});
    return;
  }
  if (!nic.up || nic.bytes_per_second.known()) return;
  const std::string said = mbits ? fmt::format("says {} Mbit/s", *mbits) : "does not say";
  host.warnings.push_back(fmt::format("{}, the device {}; measure it or give it in a fabric file",
                                      speed_unknown(nic.name), said));
}

void load_netdev(Host& host, const std::string& name, const fs::path& dir) {
  if (!is_nic(name, dir)) return;
  Nic& nic = nic_called(host, printable(name));
  const bool infiniband = read_number(dir / "type") == kTypeInfiniband;
  if (infiniband) nic.kind = LinkKind::kInfiniband;
  const std::string state = read_line(dir / "operstate");
  nic.up = state == "up" || (state == "unknown" && read_number(dir / "carrier") == 1);
  set_place(nic, place_of(dir / "device"));
  set_speed(host, nic, dir);
}

struct Port {
  std::string device;
  int number;
  fs::path dir;
  std::string netdev;  // "" when it has none
};

std::string netdev_of(const fs::path& device_dir, const Port& port) {
  std::string name = read_line(port.dir / "gid_attrs" / "ndevs" / "0");
  if (!name.empty()) return name;
  const fs::path netdevs = device_dir / "device" / "net";
  const std::vector<std::string> names = entries(netdevs);
  for (const std::string& candidate : names)
    if (read_number(netdevs / candidate / "dev_port").value_or(0) == port.number - 1)
      return candidate;
  return names.size() == 1 ? names[0] : "";
}

void load_port(Host& host, const Port& port, const Place& place) {
  const std::string own_name =
      port.number == 1 ? port.device : fmt::format("{}:{}", port.device, port.number);
  Nic& nic = nic_called(host, printable(port.netdev.empty() ? own_name : port.netdev));
  const bool active = read_line(port.dir / "state").starts_with("4");
  const std::string layer = read_line(port.dir / "link_layer");
  if (layer == "InfiniBand") nic.kind = LinkKind::kInfiniband;
  if (layer == "Ethernet" && active) nic.kind = LinkKind::kRoce;
  nic.up = active || (nic.up && !port.netdev.empty());
  set_place(nic, place);
  if (active) {
    nic.rdma_device = printable(port.device);
    nic.rdma_port = port.number;
  }
  const double gbits = read_number(port.dir / "rate").value_or(0);  // "200 Gb/sec (4X HDR)"
  if (gbits > 0 && gbits * 1000 <= kMostMbits)
    nic.bytes_per_second = better(nic.bytes_per_second, {gbits * 1.25e8, Source::kDevice});
  else if (active && !nic.bytes_per_second.known())
    host.warnings.push_back(fmt::format("rdma port {}:{}: rate unknown", port.device, port.number));
}

void load_rdma(Host& host, const std::string& device, const fs::path& dir) {
  const Place place = place_of(dir / "device");
  for (const std::string& name : entries(dir / "ports")) {
    Port port{device, 0, dir / "ports" / name, ""};
    std::from_chars(name.data(), name.data() + name.size(), port.number);
    if (port.number < 1 || port.number > 255) continue;
    port.netdev = netdev_of(dir, port);
    load_port(host, port, place);
  }
}

CpuSet read_cpus(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return CpuSet::parse(line).value_or(CpuSet());
}

void load_cpu(Host& host, const fs::path& dir) {
  // -1 where the machine does not say.
  const auto package = read_index(dir / "topology" / "physical_package_id", -1, 4096);
  CpuSet core = read_cpus(dir / "topology" / "core_cpus_list");
  if (core.empty()) core = read_cpus(dir / "topology" / "thread_siblings_list");
  if (!package || core.empty()) return;
  const auto index = static_cast<std::size_t>(std::max(*package, 0));
  if (host.packages.size() <= index) host.packages.resize(index + 1);
  Package& to = host.packages[index];
  to.cpus.add(core);
  if (std::find(to.cores.begin(), to.cores.end(), core) == to.cores.end()) to.cores.push_back(core);
}

void load_caches(Host& host, const fs::path& dir) {
  for (const std::string& index : entries(dir)) {
    if (!index.starts_with("index") || read_line(dir / index / "type") == "Instruction") continue;
    const auto level = read_index(dir / index / "level", 1, 9);
    const double kib = read_number(dir / index / "size").value_or(0);  // "512K"
    const CpuSet cpus = read_cpus(dir / index / "shared_cpu_list");
    if (!level || kib < 1 || kib > 1e9 || cpus.empty()) continue;
    const auto bytes = static_cast<std::uint64_t>(kib) * 1024;
    auto at = std::find_if(host.caches.begin(), host.caches.end(), [&](const CacheLevel& c) {
      return c.level == *level && c.bytes == bytes;
    });
    if (at == host.caches.end()) at = host.caches.insert(at, {*level, bytes, {}});
    if (std::find(at->cpus.begin(), at->cpus.end(), cpus) == at->cpus.end())
      at->cpus.push_back(cpus);
  }
}

}  // namespace

void load_sysfs(Host& host, const std::string& root) {
  const fs::path net = fs::path(root) / "class" / "net";
  for (const std::string& name : entries(net)) load_netdev(host, name, net / name);
  const fs::path rdma = fs::path(root) / "class" / "infiniband";
  for (const std::string& device : entries(rdma)) load_rdma(host, device, rdma / device);
  drop_nics_without_a_name(host);
}

void load_sysfs_gpus(Host& host, const std::string& root) {
  const fs::path devices = fs::path(root) / "bus" / "pci" / "devices";
  for (Gpu& gpu : host.gpus)
    if (gpu.numa < 0 && !gpu.pci.empty()) gpu.numa = place_of(devices / gpu.pci).numa;
}

void load_sysfs_cpus(Host& host, const std::string& root) {
  const fs::path system = fs::path(root) / "devices" / "system";
  for (const std::string& name : entries(system / "cpu")) {
    if (!name.starts_with("cpu") || !is_there(system / "cpu" / name / "topology")) continue;
    load_cpu(host, system / "cpu" / name);
    load_caches(host, system / "cpu" / name / "cache");
  }
  std::erase_if(host.packages, [](const Package& p) { return p.cpus.empty(); });
  for (const std::string& name : entries(system / "node")) {
    NumaNode node;
    const auto [end, error] = std::from_chars(name.data() + std::min<std::size_t>(4, name.size()),
                                              name.data() + name.size(), node.number);
    if (!name.starts_with("node") || error != std::errc()) continue;
    node.cpus = read_cpus(system / "node" / name / "cpulist");
    node.package = package_of(host, node.cpus);
    host.numa_nodes.push_back(std::move(node));
  }
}

}  // namespace echelon
