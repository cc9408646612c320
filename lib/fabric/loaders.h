// SPDX-License-Identifier: Apache-2.0
// Where the knowledge of machines comes from. One file per source, the only one that includes its
// library. Every loader survives arbitrary input: ECH_ERR_INVALID, or a warning in what it fills.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/fabric/fabric.h"

namespace echelon {

// Names the running kernel: the same in all containers of a machine.
std::string this_machine();

// This machine as this process sees it: hwloc, then NVML, then sysfs, then the network interfaces
// of this network namespace with their addresses.
Host discover_host();

// Packages, NUMA nodes, caches and the PCI tree of this machine into an empty host. Without hwloc:
// what sysfs tells (no PCI tree).
void load_hwloc(Host& host);
// Of the hwloc that is loaded: "2.8" (hwloc itself tells no more); "" without hwloc.
std::string hwloc_version();
// ECH_ERR_UNSUPPORTED without hwloc. `name` is for messages.
Host parse_hwloc_xml(std::string_view xml, std::string_view name);

// GPUs and NVLinks of this machine, as NVML tells them, into a host that may have some of the GPUs:
// those are completed, new ones appended. Nothing where NVML cannot be used (nvml.h says why).
void load_nvml(Host& host);
struct NvmlLibrary;
void load_nvml(Host& host, const NvmlLibrary& nvml);

// NCCL_TOPO_FILE's format: also what NCCL_TOPO_DUMP_FILE writes.
Host parse_nccl_xml(std::string_view xml, std::string_view name);

// Either of the two, told apart by its root element.
Host load_topology_xml(const std::string& path);

// NICs and RDMA ports below `root` (normally "/sys"). NICs that the host has already (by name) are
// completed, new ones appended. Not NICs: loopback, bridges and their ports, taps, ifb and dummy
// devices, members of a bond. Those that are down are kept and marked.
void load_sysfs(Host& host, const std::string& root);

// NUMA nodes of GPUs whose node is not known.
void load_sysfs_gpus(Host& host, const std::string& root);

// Packages, cores, NUMA nodes and caches below `root`, for machines without hwloc.
void load_sysfs_cpus(Host& host, const std::string& root);

// Racks from Slurm's SLURM_TOPOLOGY_ADDR ("core.leaf3.node17") of every host and
// SLURM_TOPOLOGY_ADDR_PATTERN ("switch.switch.node"): hosts with the same last switch form a rack.
// `address_of_host` is parallel to fabric.hosts, empty where unknown. Does not touch racks that a
// file gave.
void add_slurm_racks(Fabric& fabric, const std::vector<std::string>& address_of_host,
                     std::string_view pattern);

// The devices, as in UCX_NET_DEVICES, that a user means by "mlx5_0,eth1": NICs of `host`, by the
// name of their device or interface, or other interfaces of this machine. Throws ECH_ERR_INVALID,
// which begins with `who` and names the NICs that there are.
std::vector<std::string> named_devices(const Host& host, std::string_view names,
                                       std::string_view who);

// ---- shared by the loaders

// Names from outside, safe to print and to write into any format: others than printable ASCII
// become '?', at most 256 of them.
std::string printable(std::string_view text);
// "0000:2B:00.0" or "2b:00.0" to "0000:2b:00.0"; "" when it is none.
std::string normal_pci_address(std::string_view text);
// Drops NICs by whose name no fabric file could call them, as "eth[0", with a warning for each.
void drop_nics_without_a_name(Host& host);
// How the warning begins that nobody knows the speed of a NIC.
std::string speed_unknown(std::string_view nic);
// Drops it for those of `host` whose speed is known by now.
void forget_unknown_speeds(Host& host);
// One warning for all NICs of a file that lack a speed.
void warn_of_unknown_speeds(Host& host);
// PCIe: giga-transfers/s and lanes to bytes/s; 0 when absurd.
double pcie_bytes_per_second(double gigatransfers, int lanes);

}  // namespace echelon
