// SPDX-License-Identifier: Apache-2.0
// Hosts with GPUs and the ranks on them, as planning knows them.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "lib/fabric/gpu_links.h"

namespace echelon::test {

constexpr NvLinkEnd gpu(int index) { return {NvLinkEnd::Kind::kGpu, index}; }
constexpr NvLinkEnd nvswitch(int index) { return {NvLinkEnd::Kind::kSwitch, index}; }

// GPUs below one PCI bridge with a link of 32 GB/s, each with one of 16 GB/s.
inline Host host_with_gpus(int count) {
  Host host;
  host.name = "a";
  host.pci.push_back({PciNode::Kind::kRootComplex, "", -1, 0, {}});
  host.pci.push_back({PciNode::Kind::kBridge, "0000:01:00.0", 0, 0, {32e9, Source::kDevice}});
  for (int i = 0; i < count; ++i) {
    const std::string address = fmt::format("0000:{:02x}:00.0", 16 + i);
    host.pci.push_back({PciNode::Kind::kDevice, address, 1, 0, {16e9, Source::kDevice}});
    host.gpus.push_back({});
    host.gpus.back().pci = address;
  }
  host.nics.push_back({});
  host.nics[0].name = "eth0";
  host.nics[0].bytes_per_second = {12.5e9, Source::kFile};
  return host;
}

// Two GPUs and two ranks on each host.
struct PlannedGpus {
  Fabric fabric;
  std::vector<RankPlace> places;
  explicit PlannedGpus(int hosts) {
    for (int h = 0; h < hosts; ++h) {
      fabric.hosts.push_back(host_with_gpus(2));
      fabric.hosts.back().name = fabric.hosts.back().id = fmt::format("host{}", h);
    }
    places = spread_ranks(fabric, 0);
  }
  Layout layout(const GpuUse& use = {true, true}) const {
    return layout_of_gpus(make_layout(fabric, places), fabric, places, use);
  }
};

}  // namespace echelon::test
