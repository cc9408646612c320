// SPDX-License-Identifier: Apache-2.0
// Everything that is known of the machines: plain data and questions about it. Loaders (loaders.h)
// fill it, writers (formats.h) show it, placement (place.h) puts ranks on it. Nothing here knows
// where the data came from, except by the Source that every number carries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/link.h"
#include "lib/fabric/cpu_set.h"
#include "lib/fabric/layout.h"

namespace echelon {

// A number and who says so. 0 means unknown: users of the fabric take default_link() instead and
// say "default".
struct Quantity {
  double value = 0;
  Source source = Source::kDefault;

  bool known() const { return value > 0; }
  friend bool operator==(const Quantity&, const Quantity&) = default;
};

// `b` where it is trusted more than `a` (Source is ordered) or `a` is unknown.
Quantity better(Quantity a, Quantity b);

struct Package {
  std::string model;
  CpuSet cpus;
  std::vector<CpuSet> cores;
  friend bool operator==(const Package&, const Package&) = default;
};

struct NumaNode {
  int number = 0;    // in the operating system
  int package = -1;  // index, -1: unknown or several
  std::uint64_t bytes = 0;
  CpuSet cpus;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

// All data and unified caches of one level and size.
struct CacheLevel {
  int level = 1;
  std::uint64_t bytes = 0;
  std::vector<CpuSet> cpus;  // one per cache
  friend bool operator==(const CacheLevel&, const CacheLevel&) = default;
};

// The PCI tree, as far as it leads to NICs, GPUs and NVSwitches. Parents come before children.
struct PciNode {
  enum class Kind { kRootComplex, kBridge, kDevice };
  Kind kind = Kind::kDevice;
  std::string address;  // "0000:2b:00.0"; empty for root complexes
  int parent = -1;      // index; -1: none known
  int numa = -1;        // NumaNode::number, -1: unknown
  Quantity bytes_per_second;
  friend bool operator==(const PciNode&, const PciNode&) = default;
};

struct Nic {
  std::string name;  // of the network device; of the RDMA device when there is none
  LinkKind kind = LinkKind::kEthernet;
  Quantity bytes_per_second;
  Quantity latency;
  std::string pci;  // address, may be empty
  int numa = -1;    // NumaNode::number, -1: unknown
  std::vector<std::string> addresses;
  std::string rdma_device;  // "mlx5_0", may be empty
  int rdma_port = 0;
  bool up = true;
  friend bool operator==(const Nic&, const Nic&) = default;
};

struct Gpu {
  std::string name;
  std::string model;
  std::string pci;
  int numa = -1;
  std::string uuid;  // "GPU-8a2b..."; empty where NVML was not asked
  // GPUs of one uuid and clique reach each other by NVLink, also from host to host.
  std::string fabric_uuid;  // empty: its NVLinks end in its host
  int clique = 0;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct NvSwitch {
  std::string name;
  std::string pci;
  friend bool operator==(const NvSwitch&, const NvSwitch&) = default;
};

struct NvLinkEnd {
  enum class Kind { kGpu, kSwitch, kPackage };
  Kind kind = Kind::kGpu;
  int index = 0;  // in Host::gpus, ::nvswitches or ::packages
  friend bool operator==(const NvLinkEnd&, const NvLinkEnd&) = default;
};

// All NVLinks between two devices. Listed once, not per direction.
struct NvLink {
  NvLinkEnd a, b;
  int count = 0;              // 0: unknown
  Quantity bytes_per_second;  // one direction, all `count` together
  friend bool operator==(const NvLink&, const NvLink&) = default;
};

struct Host {
  std::string name;
  std::string id;  // equal for ranks that share memory and the network devices
  int ranks = 0;   // ranks to plan with, 0: not said
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<CacheLevel> caches;
  std::vector<PciNode> pci;
  std::vector<Nic> nics;
  std::vector<Gpu> gpus;
  std::vector<NvSwitch> nvswitches;
  std::vector<NvLink> nvlinks;
  std::vector<std::string> warnings;  // what is unknown or absurd
  friend bool operator==(const Host&, const Host&) = default;
};

struct Rack {
  std::string name;
  std::vector<int> hosts;  // indices
  Quantity uplink;         // bytes/s, one direction, the whole rack
  friend bool operator==(const Rack&, const Rack&) = default;
};

// What a fabric file or a probe says of a tier's links.
struct TierNumbers {
  TierKind tier = TierKind::kHost;
  std::optional<LinkKind> kind;
  Quantity bytes_per_second;
  Quantity latency;
  friend bool operator==(const TierNumbers&, const TierNumbers&) = default;
};

struct Fabric {
  std::string name;
  std::vector<Host> hosts;
  std::vector<Rack> racks;  // disjoint; hosts in none count as one rack more
  std::vector<TierNumbers> tiers;
  std::vector<std::string> warnings;
  friend bool operator==(const Fabric&, const Fabric&) = default;
};

// Takes over what was measured, except where a file states the number.
void add_measured(Fabric& fabric, const std::vector<TierNumbers>& measured);

// How far two devices of a host are apart, near to far.
enum class Distance { kSame, kSwitch, kRootComplex, kNuma, kAcross, kUnknown };
std::string_view name(Distance distance);  // "same", "switch", ...

// Between the devices at two PCI addresses.
Distance distance(const Host& host, std::string_view pci_a, std::string_view pci_b);
// Between some CPUs and a device: kNuma, kAcross or kUnknown.
Distance distance(const Host& host, const CpuSet& cpus, int numa);

int find_pci(const Host& host, std::string_view address);  // index in Host::pci or -1
int numa_of_package(const Host& host, int package);        // NumaNode::number or -1
int package_of(const Host& host, const CpuSet& cpus);      // index; -1: none or several
int package_of_numa(const Host& host, int numa);           // index or -1
std::vector<int> usable_nics(const Host& host);            // see docs/fabric.md
std::vector<int> nearest_nics(const Host& host, int gpu);  // indices in Host::nics
std::vector<int> nearest_nics(const Host& host, const CpuSet& cpus);

// NVLink bandwidth between two GPUs, one direction: direct links and through switches. 0: none.
double nvlink_bytes_per_second(const Host& host, int gpu_a, int gpu_b);

// What is assumed of a link of which nothing is known; Source is kDefault. Sources of the numbers:
// docs/fabric.md.
Link default_link(LinkKind kind);
// A NIC's numbers, defaults where unknown. The source is that of the bandwidth.
Link link_of(const Nic& nic);

std::optional<LinkKind> parse_link_kind(std::string_view text);
std::optional<Source> parse_source(std::string_view text);

}  // namespace echelon
