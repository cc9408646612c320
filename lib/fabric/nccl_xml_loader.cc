// SPDX-License-Identifier: Apache-2.0
// NCCL's topology XML. The only file that includes pugixml.
//
// system > cpu (one per NUMA node) > pci (bridges by class 0x0604.., devices) > gpu, nic > net,
// and nvlink below gpu. NCCL does not say which root complex a bridge hangs from, so the tree here
// starts with the bridges below a cpu.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

#include "lib/base/error.h"
#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

constexpr int kDeepest = 32;
constexpr std::size_t kMostNodes = 4096;

unsigned hex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

struct Target {
  int gpu;
  std::string pci;  // as written
  unsigned class_code;
  int count;
};

class Loader {
 public:
  explicit Loader(std::string_view name) : name_(name) {}

  Host load(const pugi::xml_node& system) {
    for (const pugi::xml_node& cpu : system.children("cpu")) load_cpu(cpu);
    if (host_.numa_nodes.empty())
      throw invalid(fmt::format("{}: no <cpu> in <system>; expected an nccl topology", name_));
    for (const Target& target : targets_) add_nvlink(target);
    if (!host_.nvlinks.empty())
      warn("the file does not say how fast an nvlink is: the generation's speed is assumed");
    drop_nics_without_a_name(host_);
    warn_of_unknown_speeds(host_);
    return std::move(host_);
  }

 private:
  void load_cpu(const pugi::xml_node& cpu);
  void load_pci(const pugi::xml_node& pci, int parent, int depth);
  void load_gpu(const pugi::xml_node& pci, const std::string& address);
  void load_nics(const pugi::xml_node& pci, const std::string& address, bool infiniband);
  void add_nvlink(const Target& target);
  NvLinkEnd end_of(const Target& target);
  double bytes_per_nvlink(int gpu) const;
  void warn(std::string text) { host_.warnings.push_back(std::move(text)); }

  const std::string name_;
  Host host_;
  int numa_ = -1;
  std::vector<Target> targets_;
  std::vector<int> generation_;  // compute capability (60, 70, ...) of every GPU, 0: unknown
};

void Loader::load_cpu(const pugi::xml_node& cpu) {
  if (host_.numa_nodes.size() >= kMostNodes)
    throw invalid(fmt::format("{}: more than {} <cpu>", name_, kMostNodes));
  NumaNode node;
  node.number = std::clamp(cpu.attribute("numaid").as_int(0), 0, 1 << 20);
  const std::string_view affinity = cpu.attribute("affinity").as_string();
  if (const auto cpus = CpuSet::parse_mask(affinity))
    node.cpus = *cpus;
  else
    warn(fmt::format("numa node {}: the affinity is not a mask", node.number));
  numa_ = node.number;
  host_.numa_nodes.push_back(std::move(node));
  for (const pugi::xml_node& pci : cpu.children("pci")) load_pci(pci, -1, 0);
  for (const pugi::xml_node& nic : cpu.children("nic")) load_nics(nic.parent(), "", false);
}

void Loader::load_pci(const pugi::xml_node& pci, int parent, int depth) {
  if (depth > kDeepest || host_.pci.size() >= kMostNodes)
    throw invalid(fmt::format("{}: <pci> nested or repeated beyond reason", name_));
  const unsigned device_class = hex(pci.attribute("class").as_string()) >> 8;
  PciNode node;
  node.kind = device_class == 0x0604 ? PciNode::Kind::kBridge : PciNode::Kind::kDevice;
  node.address = normal_pci_address(pci.attribute("busid").as_string());
  node.parent = parent;
  node.numa = numa_;
  double speed = 0;
  const std::string_view text = pci.attribute("link_speed").as_string();
  std::from_chars(text.data(), text.data() + text.size(), speed);
  const int lanes = pci.attribute("link_width").as_int(0);
  node.bytes_per_second = {pcie_bytes_per_second(speed, lanes), Source::kDevice};
  if (!node.bytes_per_second.known()) node.bytes_per_second = {};
  if (node.address.empty())
    warn(fmt::format("pci device \"{}\" has no valid address",
                     printable(pci.attribute("busid").as_string())));
  const std::string address = node.address;
  const int self = static_cast<int>(host_.pci.size());
  host_.pci.push_back(std::move(node));

  if (device_class == 0x0302 || device_class == 0x0300 || pci.child("gpu"))
    load_gpu(pci, address);
  else if (device_class >> 8 == 0x02 || pci.child("nic"))
    load_nics(pci, address, device_class == 0x0207);
  for (const pugi::xml_node& child : pci.children("pci")) load_pci(child, self, depth + 1);
}

void Loader::load_gpu(const pugi::xml_node& pci, const std::string& address) {
  const int index = static_cast<int>(host_.gpus.size());
  host_.gpus.push_back({fmt::format("gpu{}", index), "", address, numa_, "", "", 0});
  generation_.push_back(pci.child("gpu").attribute("sm").as_int(0));
  for (const pugi::xml_node& link : pci.child("gpu").children("nvlink"))
    targets_.push_back({index, link.attribute("target").as_string(),
                        hex(link.attribute("tclass").as_string()) >> 8,
                        std::clamp(link.attribute("count").as_int(0), 0, 1000)});
}

// One NIC per <net>; a device of which the file names none is called by its address.
void Loader::load_nics(const pugi::xml_node& pci, const std::string& address, bool infiniband) {
  const std::size_t before = host_.nics.size();
  for (const pugi::xml_node& nic : pci.children("nic"))
    for (const pugi::xml_node& net : nic.children("net")) {
      Nic out;
      out.name = printable(net.attribute("name").as_string());
      out.kind = infiniband ? LinkKind::kInfiniband : LinkKind::kEthernet;
      out.pci = address;
      out.numa = numa_;
      const double mbits = net.attribute("speed").as_double(0);
      if (mbits > 0 && mbits <= 1e7) out.bytes_per_second = {mbits * 1.25e5, Source::kDevice};
      // NCCL names RDMA devices here; sockets have no guid.
      if (net.attribute("guid")) {
        out.rdma_device = out.name;
        out.rdma_port = std::clamp(net.attribute("port").as_int(1), 0, 255);
        if (!infiniband) out.kind = LinkKind::kRoce;
      }
      host_.nics.push_back(std::move(out));
    }
  if (host_.nics.size() == before && !address.empty()) {
    Nic out;
    out.name = address;
    out.kind = infiniband ? LinkKind::kInfiniband : LinkKind::kEthernet;
    out.pci = address;
    out.numa = numa_;
    host_.nics.push_back(std::move(out));
  }
}

NvLinkEnd Loader::end_of(const Target& target) {
  const std::string pci = normal_pci_address(target.pci);
  for (std::size_t i = 0; i < host_.gpus.size(); ++i)
    if (!pci.empty() && host_.gpus[i].pci == pci) return {NvLinkEnd::Kind::kGpu, int(i)};
  // Class 0x0680 is an NVSwitch (some NCCL versions name them all by one invalid address).
  const std::string name = pci.empty() ? printable(target.pci) : pci;
  for (std::size_t i = 0; i < host_.nvswitches.size(); ++i)
    if (host_.nvswitches[i].name == name) return {NvLinkEnd::Kind::kSwitch, int(i)};
  if (target.class_code == 0x0680) {
    host_.nvswitches.push_back({name, pci});
    return {NvLinkEnd::Kind::kSwitch, static_cast<int>(host_.nvswitches.size()) - 1};
  }
  return {NvLinkEnd::Kind::kGpu, -1};
}

// NCCL does not say how fast a link is; it follows from the generation (docs/fabric.md).
double Loader::bytes_per_nvlink(int gpu) const { return generation_[gpu] == 60 ? 20e9 : 25e9; }

// NCCL lists a GPU-GPU link at both ends.
void Loader::add_nvlink(const Target& target) {
  const NvLinkEnd self{NvLinkEnd::Kind::kGpu, target.gpu};
  const NvLinkEnd other = end_of(target);
  if (other.index < 0 || other == self) {
    warn(fmt::format("gpu{}: nvlink to unknown device {}", target.gpu, printable(target.pci)));
    return;
  }
  const bool known = std::any_of(host_.nvlinks.begin(), host_.nvlinks.end(), [&](const NvLink& l) {
    return (l.a == self && l.b == other) || (l.a == other && l.b == self);
  });
  if (known) return;
  const double together = bytes_per_nvlink(target.gpu) * std::max(target.count, 1);
  host_.nvlinks.push_back({self, other, target.count, {together, Source::kDefault}});
}

}  // namespace

Host parse_nccl_xml(std::string_view xml, std::string_view name) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(xml.data(), xml.size());
  if (!result) {
    const std::string_view before = xml.substr(0, static_cast<std::size_t>(result.offset));
    throw invalid(fmt::format("{}:{}: {}; expected nccl topology xml", name,
                              1 + std::count(before.begin(), before.end(), '\n'),
                              result.description()));
  }
  const pugi::xml_node system = document.child("system");
  if (!system) throw invalid(fmt::format("{}: no <system>; expected nccl topology xml", name));
  return Loader(name).load(system);
}

}  // namespace echelon
