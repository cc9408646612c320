// SPDX-License-Identifier: Apache-2.0
// This machine, or a machine's XML file, as hwloc sees it. The only file that includes hwloc.
#include <fmt/format.h>
#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <unordered_map>

#include "lib/base/error.h"
#include "lib/fabric/isolated.h"
#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002;
constexpr double kMegabytes = 1e6;  // NVLink bandwidths are in MB/s

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

Topology new_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw system_error("hwloc_topology_init");
  Topology owner(topology);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  return owner;
}

CpuSet cpus_of(hwloc_obj_t object) {
  CpuSet out;
  if (object->cpuset == nullptr || hwloc_bitmap_weight(object->cpuset) < 0) return out;
  for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0 && cpu < CpuSet::kLimit;
       cpu = hwloc_bitmap_next(object->cpuset, cpu))
    out.add(cpu);
  return out;
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  return value != nullptr ? printable(value) : "";
}

class Loader {
 public:
  Loader(hwloc_topology_t topology, Host& host) : topology_(topology), host_(host) {}

  void load() {
    load_packages();
    load_numa_nodes();
    load_caches();
    walk(hwloc_get_root_obj(topology_), -1, -1);
    load_nvlinks();
  }

 private:
  void load_packages();
  void load_numa_nodes();
  void load_caches();
  bool walk(hwloc_obj_t object, int parent, int numa);
  bool walk_io_children(hwloc_obj_t object, int parent, int numa);
  PciNode pci_node(hwloc_obj_t object) const;
  bool load_device(hwloc_obj_t object, int numa);
  void load_gpu(hwloc_obj_t object, int numa);
  bool load_nics(hwloc_obj_t object, int numa);
  void load_nvlinks();
  void warn_of_unknown_trunks();
  std::optional<NvLinkEnd> end_of(hwloc_obj_t object) const;
  void add_nvlink(hwloc_obj_t from, hwloc_obj_t to, double bytes_per_second);

  // All objects of a normal or memory type.
  template <typename Visit>
  void each(hwloc_obj_type_t type, Visit visit) {
    for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(topology_, type, o)) != nullptr;)
      visit(o);
  }

  const hwloc_topology_t topology_;
  Host& host_;
  std::unordered_map<std::uint64_t, NvLinkEnd> ends_;  // by gp_index of the PCI device
};

void Loader::load_packages() {
  each(HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t o) {
    host_.packages.push_back({info(o, "CPUModel"), cpus_of(o), {}});
  });
  if (host_.packages.empty())
    host_.packages.push_back({"", cpus_of(hwloc_get_root_obj(topology_)), {}});
  each(HWLOC_OBJ_CORE, [&](hwloc_obj_t o) {
    const CpuSet cpus = cpus_of(o);
    const int package = package_of(host_, cpus);
    if (package >= 0) host_.packages[package].cores.push_back(cpus);
  });
}

void Loader::load_numa_nodes() {
  each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t o) {
    NumaNode node;
    node.number = static_cast<int>(std::min(o->os_index, 1u << 20));
    node.bytes = o->attr->numanode.local_memory;
    node.cpus = cpus_of(o);
    node.package = package_of(host_, node.cpus);
    host_.numa_nodes.push_back(std::move(node));
  });
}

void Loader::load_caches() {
  constexpr hwloc_obj_type_t kTypes[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                         HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE};
  for (hwloc_obj_type_t type : kTypes)
    each(type, [&](hwloc_obj_t o) {
      const int level = static_cast<int>(o->attr->cache.depth);
      const std::uint64_t bytes = o->attr->cache.size;
      auto at = std::find_if(host_.caches.begin(), host_.caches.end(), [&](const CacheLevel& c) {
        return c.level == level && c.bytes == bytes;
      });
      if (at == host_.caches.end()) at = host_.caches.insert(at, {level, bytes, {}});
      at->cpus.push_back(cpus_of(o));
    });
}

PciNode Loader::pci_node(hwloc_obj_t object) const {
  PciNode node;
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s* pci = &object->attr->pcidev;
  if (object->type == HWLOC_OBJ_BRIDGE) {
    if (object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
      node.kind = PciNode::Kind::kRootComplex;
      return node;
    }
    node.kind = PciNode::Kind::kBridge;
    pci = &object->attr->bridge.upstream.pci;
  }
  node.address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci->domain),
                             pci->bus, pci->dev, pci->func);
  const double speed = static_cast<double>(pci->linkspeed) * 1e9;
  if (speed > 0 && speed < 1e13) node.bytes_per_second = {speed, Source::kDevice};
  return node;
}

// Depth first through normal and I/O objects. Keeps the PCI nodes that lead to a device of
// interest; says whether this one does.
bool Loader::walk(hwloc_obj_t object, int parent, int numa) {
  if (object->nodeset != nullptr && hwloc_bitmap_weight(object->nodeset) == 1)
    numa = hwloc_bitmap_first(object->nodeset);
  if (object->type != HWLOC_OBJ_BRIDGE && object->type != HWLOC_OBJ_PCI_DEVICE) {
    for (hwloc_obj_t c = object->first_child; c != nullptr; c = c->next_sibling)
      walk(c, parent, numa);
    return walk_io_children(object, parent, numa);
  }
  const std::size_t self = host_.pci.size();
  host_.pci.push_back(pci_node(object));
  host_.pci.back().parent = parent;
  host_.pci.back().numa = numa;
  bool used = object->type == HWLOC_OBJ_PCI_DEVICE && load_device(object, numa);
  used = walk_io_children(object, static_cast<int>(self), numa) || used;
  if (!used) host_.pci.resize(self);
  return used;
}

bool Loader::walk_io_children(hwloc_obj_t object, int parent, int numa) {
  bool used = false;
  for (hwloc_obj_t c = object->io_first_child; c != nullptr; c = c->next_sibling)
    used = walk(c, parent, numa) || used;
  return used;
}

bool Loader::load_device(hwloc_obj_t object, int numa) {
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = object->attr->pcidev;
  const bool accelerator = pci.class_id == 0x0302 || pci.class_id == 0x0380;
  const bool vga = pci.class_id == 0x0300 &&
                   (pci.vendor_id == kNvidia || pci.vendor_id == kAmd || pci.vendor_id == 0);
  if (accelerator || vga) {
    load_gpu(object, numa);
    return true;
  }
  if (object->subtype != nullptr && std::string_view(object->subtype) == "NVSwitch") {
    const int index = static_cast<int>(host_.nvswitches.size());
    ends_[object->gp_index] = {NvLinkEnd::Kind::kSwitch, index};
    host_.nvswitches.push_back({fmt::format("nvswitch{}", index), host_.pci.back().address});
    return true;
  }
  return load_nics(object, numa);
}

void Loader::load_gpu(hwloc_obj_t object, int numa) {
  Gpu gpu;
  const int index = static_cast<int>(host_.gpus.size());
  gpu.name = fmt::format("gpu{}", index);
  gpu.pci = host_.pci.back().address;
  gpu.numa = numa;
  for (hwloc_obj_t c = object->io_first_child; c != nullptr; c = c->next_sibling)
    if (gpu.model.empty()) gpu.model = info(c, "GPUModel");
  ends_[object->gp_index] = {NvLinkEnd::Kind::kGpu, index};
  host_.gpus.push_back(std::move(gpu));
}

// The network devices below a PCI device, each with the RDMA device beside it; a device of the
// network class without either is known by its address.
bool Loader::load_nics(hwloc_obj_t object, int numa) {
  Nic nic;
  nic.pci = host_.pci.back().address;
  nic.numa = numa;
  const bool infiniband = object->attr->pcidev.class_id == 0x0207;
  std::vector<std::string> netdevs;
  const auto visit = [&](auto& self, hwloc_obj_t parent) -> void {
    for (hwloc_obj_t c = parent->io_first_child; c != nullptr; c = c->next_sibling) {
      if (c->type == HWLOC_OBJ_OS_DEVICE && c->name != nullptr) {
        const auto type = c->attr->osdev.type;
        if (type == HWLOC_OBJ_OSDEV_NETWORK) netdevs.push_back(printable(c->name));
        if (type == HWLOC_OBJ_OSDEV_OPENFABRICS) nic.rdma_device = printable(c->name);
      }
      self(self, c);
    }
  };
  visit(visit, object);
  const bool class_says = object->attr->pcidev.class_id >> 8 == 0x02;
  if (netdevs.empty() && nic.rdma_device.empty() && !class_says) return false;
  nic.rdma_port = nic.rdma_device.empty() ? 0 : 1;
  if (infiniband) nic.kind = LinkKind::kInfiniband;
  if (!infiniband && !nic.rdma_device.empty()) nic.kind = LinkKind::kRoce;
  if (netdevs.empty()) netdevs.push_back(nic.rdma_device.empty() ? nic.pci : nic.rdma_device);
  for (std::string& name : netdevs) {
    nic.name = std::move(name);
    host_.nics.push_back(nic);
    nic.rdma_port += nic.rdma_port > 0 ? 1 : 0;
  }
  return true;
}

std::optional<NvLinkEnd> Loader::end_of(hwloc_obj_t object) const {
  if (object->type == HWLOC_OBJ_PACKAGE)
    return NvLinkEnd{NvLinkEnd::Kind::kPackage, static_cast<int>(object->logical_index)};
  for (; object != nullptr; object = object->parent)
    if (const auto at = ends_.find(object->gp_index); at != ends_.end()) return at->second;
  return {};
}

void Loader::add_nvlink(hwloc_obj_t from, hwloc_obj_t to, double bytes_per_second) {
  const std::optional<NvLinkEnd> a = end_of(from), b = end_of(to);
  if (!a || !b) {
    host_.warnings.push_back(
        "an nvlink ends at a device that is neither gpu, nvswitch nor package");
    return;
  }
  if (bytes_per_second > 1e13) {
    host_.warnings.push_back(fmt::format("an nvlink of {} B/s is ignored", bytes_per_second));
    return;
  }
  host_.nvlinks.push_back({*a, *b, 0, {bytes_per_second, Source::kDevice}});
}

// hwloc does not ask NVSwitches about the links between them.
void Loader::warn_of_unknown_trunks() {
  const int n = static_cast<int>(host_.gpus.size());
  for (int a = 0; a < n && !host_.nvswitches.empty(); ++a)
    for (int b = a + 1; b < n; ++b) {
      if (nvlink_bytes_per_second(host_, a, b) > 0) continue;
      host_.warnings.push_back(
          fmt::format("no nvlink is known between gpu{} and gpu{}, perhaps because links between "
                      "nvswitches are not told",
                      a, b));
      return;
    }
}

void Loader::load_nvlinks() {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_name(topology_, "NVLinkBandwidth", &count, &matrix, 0) != 0 ||
      count == 0 || matrix == nullptr)
    return;
  const unsigned n = matrix->nbobjs;
  for (unsigned i = 0; i < n; ++i)
    for (unsigned j = i + 1; j < n; ++j) {
      // One direction may be missing in a file; 0 both ways is no link.
      const auto value = std::max(matrix->values[i * n + j], matrix->values[j * n + i]);
      if (value == 0 || matrix->objs[i] == nullptr || matrix->objs[j] == nullptr) continue;
      add_nvlink(matrix->objs[i], matrix->objs[j], static_cast<double>(value) * kMegabytes);
    }
  hwloc_distances_release(topology_, matrix);
  warn_of_unknown_trunks();
}

Host parse_here(std::string_view xml, std::string_view name) {
  const Topology topology = new_topology();
  const std::string text(xml);  // hwloc wants a final 0, and counts it
  const bool fits = text.size() < std::numeric_limits<int>::max();
  if (!fits ||
      hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(),
                                   static_cast<int>(text.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0)
    throw invalid(fmt::format("{}: not a topology; expected xml as lstopo writes it", name));
  Host host;
  host.name = info(hwloc_get_root_obj(topology.get()), "HostName");
  Loader(topology.get(), host).load();
  drop_nics_without_a_name(host);
  warn_of_unknown_speeds(host);
  return host;
}

}  // namespace

std::string hwloc_version() {
  const unsigned version = hwloc_get_api_version();
  return fmt::format("{}.{}", version >> 16, version >> 8 & 0xff);
}

void load_hwloc(Host& host) {
  const Topology topology = new_topology();
  // These start whole run-time systems (or an X connection) to tell what sysfs and NVML tell as
  // well, and NVML is asked by nvml_loader.cc; libpciaccess leaks.
  for (const char* component : {"cuda", "gl", "levelzero", "nvml", "opencl", "pci"})
    hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                  component);
  if (hwloc_topology_load(topology.get()) != 0) throw system_error("hwloc_topology_load");
  Loader(topology.get(), host).load();
}

// In a process of its own: hwloc 2.9 crashes on objects without a cpuset, for one.
Host parse_hwloc_xml(std::string_view xml, std::string_view name) {
  return make_isolated(name, [&] { return parse_here(xml, name); });
}

}  // namespace echelon
