// SPDX-License-Identifier: Apache-2.0
// Files of real machines: what they say, read by eye, against what the loaders make of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/place.h"
#include "tests/support/temp_folder.h"

namespace echelon {
namespace {

std::string path_of(const std::string& file) { return std::string(TOPOLOGIES) + "/" + file; }
Host load(const std::string& file) { return load_topology_xml(path_of(file)); }

std::vector<std::string> gpu_addresses(const Host& host) {
  std::vector<std::string> out;
  for (const Gpu& gpu : host.gpus) out.push_back(gpu.pci);
  return out;
}

std::vector<std::string> near_nics(const Host& host, int gpu) {
  std::vector<std::string> out;
  for (int i : nearest_nics(host, gpu)) out.push_back(host.nics[i].name);
  return out;
}

void expect_round_trip(const Host& host) {
  Fabric fabric;
  fabric.hosts.push_back(host);
  if (fabric.hosts[0].name.empty()) fabric.hosts[0].name = "machine";
  EXPECT_EQ(expand(parse_fabric_file(to_toml(fabric), "dump.toml")), fabric);
  EXPECT_EQ(expand(parse_fabric_file(to_json(fabric), "dump.json")), fabric);
  EXPECT_EQ(host_from_wire(to_wire(fabric.hosts[0])), fabric.hosts[0]);
}

// 16 GPUs on two boards. Each GPU has one NVLink (25 GB/s) to each of the 6 NVSwitches of its
// board; the file does not tell of links between switches.
TEST(Topologies, Dgx2) {
  const Host host = load("nvidiaDGX2.xml");
  EXPECT_EQ(
      gpu_addresses(host),
      (std::vector<std::string>{"0000:34:00.0", "0000:36:00.0", "0000:39:00.0", "0000:3b:00.0",
                                "0000:57:00.0", "0000:59:00.0", "0000:5c:00.0", "0000:5e:00.0",
                                "0000:b7:00.0", "0000:b9:00.0", "0000:bc:00.0", "0000:be:00.0",
                                "0000:e0:00.0", "0000:e2:00.0", "0000:e5:00.0", "0000:e7:00.0"}));
  EXPECT_EQ(host.gpus[0].model, "Tesla V100-SXM3-32GB-H");
  EXPECT_EQ(host.nvswitches.size(), 12u);
  EXPECT_EQ(host.nvswitches[0].pci, "0000:61:00.0");
  EXPECT_EQ(host.nvlinks.size(), 96u);
  for (const NvLink& link : host.nvlinks) {
    EXPECT_EQ(link.bytes_per_second, (Quantity{25e9, Source::kDevice}));
    EXPECT_EQ(link.a.kind, NvLinkEnd::Kind::kGpu);
    EXPECT_EQ(link.b.kind, NvLinkEnd::Kind::kSwitch);
    EXPECT_EQ(link.a.index / 8, link.b.index / 6) << "a switch of its own board";
  }
  EXPECT_EQ(nvlink_bytes_per_second(host, 0, 7), 150e9);
  EXPECT_EQ(nvlink_bytes_per_second(host, 8, 15), 150e9);
  EXPECT_EQ(nvlink_bytes_per_second(host, 7, 8), 0);
  EXPECT_EQ(host.warnings.size(), 1u) << "says that links between the boards are unknown";
  EXPECT_TRUE(host.nics.empty());
  expect_round_trip(host);
}

TEST(Topologies, Dgx2AroundItsGpus) {
  const Host host = load("nvidiaDGX2.xml");
  ASSERT_EQ(host.packages.size(), 2u);
  EXPECT_EQ(host.packages[1].cpus.list(), "24-25");
  EXPECT_EQ(host.packages[1].model, "Intel(R) Xeon(R) Platinum 8174 CPU @ 3.10GHz");
  EXPECT_EQ(host.numa_nodes[0].bytes, 810234351616u);
  EXPECT_EQ(host.gpus[7].numa, 0);
  EXPECT_EQ(host.gpus[8].numa, 1);
  const auto apart = [&](int a, int b) {
    return distance(host, host.gpus[a].pci, host.gpus[b].pci);
  };
  EXPECT_EQ(apart(0, 0), Distance::kSame);
  EXPECT_EQ(apart(0, 1), Distance::kSwitch);
  EXPECT_EQ(apart(0, 3), Distance::kSwitch) << "one switch higher";
  EXPECT_EQ(apart(3, 4), Distance::kNuma) << "two root complexes of one socket";
  EXPECT_EQ(apart(0, 15), Distance::kAcross);
  const int gpu = find_pci(host, "0000:34:00.0");
  ASSERT_GE(gpu, 0);
  EXPECT_NEAR(host.pci[gpu].bytes_per_second.value, 15.75e9, 0.01e9);
  EXPECT_EQ(host.pci[host.pci[gpu].parent].address, "0000:33:00.0");
}

// 4 GPUs, each joined to its socket and to the other GPU of that socket, 40 GB/s each.
TEST(Topologies, Power8) {
  const Host host = load("power8gpudistances.xml");
  EXPECT_EQ(host.name, "drac-12.grenoble.grid5000.fr");
  EXPECT_EQ(gpu_addresses(host), (std::vector<std::string>{"0002:01:00.0", "0003:01:00.0",
                                                           "000a:01:00.0", "000b:01:00.0"}));
  EXPECT_EQ(host.gpus[2].model, "Tesla P100-SXM2-16GB");
  EXPECT_EQ(host.packages.size(), 2u);
  EXPECT_EQ(host.packages[0].cores.size(), 4u);
  EXPECT_EQ(host.packages[0].cpus.list(), "0-1,8-9,16-17,24-25");
  EXPECT_EQ(host.nvlinks.size(), 6u);
  EXPECT_EQ(nvlink_bytes_per_second(host, 0, 1), 40e9);
  EXPECT_EQ(nvlink_bytes_per_second(host, 2, 3), 40e9);
  EXPECT_EQ(nvlink_bytes_per_second(host, 1, 2), 0);
  const NvLink to_socket{
      {NvLinkEnd::Kind::kGpu, 3}, {NvLinkEnd::Kind::kPackage, 1}, 0, {40e9, Source::kDevice}};
  EXPECT_NE(std::find(host.nvlinks.begin(), host.nvlinks.end(), to_socket), host.nvlinks.end());
  EXPECT_EQ(distance(host, "0002:01:00.0", "0003:01:00.0"), Distance::kNuma);
  EXPECT_EQ(distance(host, "0002:01:00.0", "000a:01:00.0"), Distance::kAcross);
  ASSERT_EQ(host.caches.size(), 1u);
  EXPECT_EQ(host.caches[0].level, 3);
  EXPECT_EQ(host.caches[0].bytes, 8388608u);
  EXPECT_EQ(host.caches[0].cpus.size(), 8u);
  expect_round_trip(host);
}

// 4 NUMA nodes, each with one PCIe switch that has 2 GPUs and 2 InfiniBand NICs.
TEST(Topologies, AzureNdA100V4) {
  const Host host = load("ndv4-topo.xml");
  EXPECT_EQ(
      gpu_addresses(host),
      (std::vector<std::string>{"0003:00:00.0", "0004:00:00.0", "0001:00:00.0", "0002:00:00.0",
                                "000d:00:00.0", "000e:00:00.0", "000b:00:00.0", "000c:00:00.0"}));
  ASSERT_EQ(host.nics.size(), 8u);
  for (const Nic& nic : host.nics) {
    EXPECT_EQ(nic.kind, LinkKind::kInfiniband);
    EXPECT_FALSE(nic.bytes_per_second.known());
  }
  EXPECT_EQ(host.warnings.size(), 1u) << "says that the speeds are unknown";
  ASSERT_EQ(host.numa_nodes.size(), 4u);
  EXPECT_EQ(host.numa_nodes[1].cpus.list(), "24-47");
  EXPECT_EQ(host.numa_nodes[3].cpus.list(), "72-95");
  EXPECT_EQ(near_nics(host, 0), (std::vector<std::string>{"0103:00:00.0", "0104:00:00.0"}));
  EXPECT_EQ(near_nics(host, 3), (std::vector<std::string>{"0101:00:00.0", "0102:00:00.0"}));
  EXPECT_EQ(near_nics(host, 7), (std::vector<std::string>{"0105:00:00.0", "0106:00:00.0"}));
  EXPECT_EQ(distance(host, "0003:00:00.0", "0104:00:00.0"), Distance::kSwitch);
  EXPECT_EQ(distance(host, "0003:00:00.0", "0101:00:00.0"), Distance::kAcross);
  EXPECT_EQ(host.pci[find_pci(host, "0101:00:00.0")].bytes_per_second.source, Source::kDevice);
  EXPECT_NEAR(host.pci[find_pci(host, "0101:00:00.0")].bytes_per_second.value, 31.5e9, 0.1e9);
  EXPECT_TRUE(host.nvlinks.empty());
  EXPECT_EQ(nearest_nics(host, CpuSet::range(72, 95)), (std::vector<int>{6, 7}));
  expect_round_trip(host);
}

// 2 sockets, each with two PCIe switches that have 2 GPUs and 1 NIC each.
TEST(Topologies, AwsP4d) {
  const Host host = load("p4d-24xl-topo.xml");
  EXPECT_EQ(host.gpus.size(), 8u);
  ASSERT_EQ(host.nics.size(), 4u);
  EXPECT_EQ(host.nics[0].kind, LinkKind::kEthernet);
  EXPECT_EQ(near_nics(host, 0), (std::vector<std::string>{"0000:10:1b.0"}));
  EXPECT_EQ(near_nics(host, 3), (std::vector<std::string>{"0000:20:1b.0"}));
  EXPECT_EQ(near_nics(host, 6), (std::vector<std::string>{"0000:a0:1b.0"}));
  EXPECT_EQ(host.numa_nodes[0].cpus.list(), "0-23,48-71");
  EXPECT_EQ(distance(host, "0000:10:1c.0", "0000:10:1d.0"), Distance::kSwitch);
  EXPECT_EQ(distance(host, "0000:10:1c.0", "0000:20:1c.0"), Distance::kNuma);
  EXPECT_EQ(distance(host, "0000:10:1c.0", "0000:90:1c.0"), Distance::kAcross);
  EXPECT_NEAR(host.pci[find_pci(host, "0000:10:1b.0")].bytes_per_second.value, 15.75e9, 0.1e9);
  expect_round_trip(host);
}

// The NIC that each of one rank per GPU uses first, in every file.
TEST(Topologies, EveryGpuHasItsNearestNic) {
  const auto first_nics = [](const std::string& file) {
    Fabric fabric;
    fabric.hosts = {load(file)};
    const std::vector<RankPlace> places = spread_ranks(fabric, 0);
    std::vector<std::string> names;
    for (std::size_t r = 0; r < places.size(); ++r) {
      EXPECT_EQ(places[r].gpu, static_cast<int>(r));
      const std::vector<int> nics = nics_of_rank(fabric, places, static_cast<int>(r));
      names.push_back(nics.empty() ? "" : fabric.hosts[0].nics[nics[0]].name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(first_nics("ndv4-topo.xml"),
            (Names{"0103:00:00.0", "0104:00:00.0", "0101:00:00.0", "0102:00:00.0", "0107:00:00.0",
                   "0108:00:00.0", "0105:00:00.0", "0106:00:00.0"}));
  EXPECT_EQ(first_nics("p4d-24xl-topo.xml"),
            (Names{"0000:10:1b.0", "0000:10:1b.0", "0000:20:1b.0", "0000:20:1b.0", "0000:90:1b.0",
                   "0000:90:1b.0", "0000:a0:1b.0", "0000:a0:1b.0"}));
  EXPECT_EQ(first_nics("nvidiaDGX2.xml"), Names(16)) << "the file has none";
  EXPECT_EQ(first_nics("power8gpudistances.xml"), Names(4)) << "the file has none";
}

// Truncated and bent files: an error or some host, never a crash.
TEST(Topologies, BentHwlocXml) {
  std::ifstream in(path_of("power8gpudistances.xml"));
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(good.empty());
  std::mt19937 random(1);
  for (int i = 0; i < 150; ++i) {
    std::string bent = good.substr(0, i % 3 == 0 ? random() % good.size() : good.size());
    if (!bent.empty()) bent[random() % bent.size()] = static_cast<char>(' ' + random() % 95);
    try {
      (void)to_wire(parse_hwloc_xml(bent, "bent"));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    }
  }
  EXPECT_THROW(parse_hwloc_xml("", "empty"), Error);
  EXPECT_THROW(load("no such file"), Error);
}

// A tree gathered from a machine: hwloc's own backend reads it, below another root.
class Ac922 : public testing::Test {
 protected:
  void SetUp() override {
    const std::string root = folder_.path().string();
    const std::string unpack = fmt::format("tar -xjf '{}' -C '{}'", path_of("ac922.tar.bz2"), root);
    ASSERT_EQ(std::system(unpack.c_str()), 0);
    tree_ = root + "/nvidiagpunumanodes";
    setenv("HWLOC_FSROOT", tree_.c_str(), 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  }
  void TearDown() override {
    for (const char* name : {"HWLOC_FSROOT", "HWLOC_THISSYSTEM", "HWLOC_COMPONENTS"})
      unsetenv(name);
  }
  const test::TempFolder folder_{"ac922"};
  std::string tree_;
};

TEST_F(Ac922, HasThreeGpusPerSocket) {
  Host host;
  host.name = "ac922";
  load_hwloc(host);
  EXPECT_EQ(gpu_addresses(host),
            (std::vector<std::string>{"0004:05:00.0", "0004:06:00.0", "0006:00:00.0",
                                      "0007:00:00.0", "0035:04:00.0", "0035:05:00.0"}));
  ASSERT_EQ(host.packages.size(), 2u);
  EXPECT_EQ(host.packages[0].cpus.list(), "0-15");
  EXPECT_EQ(host.packages[1].cpus.list(), "88-103");
  EXPECT_EQ(host.packages[1].cores.size(), 4u);
  // The GPUs' own memories (nodes 250 to 255) are not the CPUs'.
  ASSERT_EQ(host.numa_nodes.size(), 2u);
  EXPECT_EQ(host.numa_nodes[1].number, 8);
  EXPECT_EQ(host.gpus[2].numa, 0);
  EXPECT_EQ(host.gpus[3].numa, 8);
  EXPECT_EQ(distance(host, "0004:05:00.0", "0006:00:00.0"), Distance::kNuma);
  EXPECT_EQ(distance(host, "0004:05:00.0", "0035:04:00.0"), Distance::kAcross);
  EXPECT_TRUE(host.nics.empty()) << "the tree has no network devices";
  expect_round_trip(host);

  Host by_sysfs;
  load_sysfs_cpus(by_sysfs, tree_ + "/sys");
  ASSERT_EQ(by_sysfs.packages.size(), 2u);
  EXPECT_EQ(by_sysfs.packages[1].cpus.list(), "88-103");
  EXPECT_EQ(by_sysfs.packages[1].cores.size(), 4u);
}

}  // namespace
}  // namespace echelon
