// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/loaders.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "tests/support/temp_folder.h"

namespace echelon {
namespace {

namespace fs = std::filesystem;

// A directory tree like /sys, made of real files.
class Sysfs : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void link(const std::string& path, const std::string& target) {
    fs::create_directories(root_ / target);
    fs::create_directories((root_ / path).parent_path());
    fs::create_directory_symlink(root_ / target, root_ / path);
  }
  void netdev(const std::string& name, const std::string& speed, const std::string& state = "up",
              const std::string& type = "1") {
    write("class/net/" + name + "/type", type);
    write("class/net/" + name + "/operstate", state);
    if (!speed.empty()) write("class/net/" + name + "/speed", speed);
  }
  Host load() {
    Host host;
    load_sysfs(host, root_.string());
    return host;
  }

  const test::TempFolder folder_{"sysfs"};
  const fs::path root_ = folder_.path();
};

TEST_F(Sysfs, SpeedsAndStates) {
  netdev("eth0", "10000");
  netdev("eth1", "1000", "down");
  netdev("eth10", "", "unknown");
  write("class/net/eth10/carrier", "1");
  write("devices/pci0000:00/0000:00:03.0/numa_node", "1");
  link("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0/virtio2");
  const Host host = load();
  ASSERT_EQ(host.nics.size(), 3u);
  EXPECT_EQ(host.nics[0].name, "eth0");
  EXPECT_EQ(host.nics[0].bytes_per_second, (Quantity{1.25e9, Source::kDevice}));
  EXPECT_EQ(host.nics[0].pci, "0000:00:03.0");
  EXPECT_EQ(host.nics[0].numa, 1);
  EXPECT_FALSE(host.nics[1].up);
  EXPECT_EQ(host.nics[2].name, "eth10");
  EXPECT_TRUE(host.nics[2].up);
  EXPECT_FALSE(host.nics[2].bytes_per_second.known());
  ASSERT_EQ(host.warnings.size(), 1u);
  EXPECT_NE(host.warnings[0].find("eth10"), std::string::npos);
}

TEST_F(Sysfs, AbsurdSpeedsAreSaidAndNotBelieved) {
  for (const char* speed : {"-1", "0", "4294967295", "1e300", "nan", "fast", ""}) {
    fs::remove_all(root_ / "class");
    netdev("eth0", speed);
    const Host host = load();
    EXPECT_FALSE(host.nics.at(0).bytes_per_second.known()) << speed;
    EXPECT_EQ(host.warnings.size(), 1u) << speed;
    EXPECT_EQ(link_of(host.nics[0]).source, Source::kDefault);
  }
}

TEST_F(Sysfs, WhatIsNoNic) {
  netdev("lo", "", "unknown", "772");
  netdev("docker0", "");
  fs::create_directories(root_ / "class/net/docker0/bridge");
  netdev("veth1", "10000");
  fs::create_directories(root_ / "class/net/veth1/brport");
  netdev("tap0", "10");
  write("class/net/tap0/tun_flags", "0x1002");
  netdev("ifb0", "", "down");
  netdev("dummy0", "");
  netdev("tun0", "10", "up", "65534");
  netdev("veth0", "10000");
  netdev("bond0", "50000");
  netdev("eth2", "25000");
  fs::create_directories(root_ / "class/net/eth2/bonding_slave");
  const Host host = load();
  ASSERT_EQ(host.nics.size(), 2u);
  EXPECT_EQ(host.nics[0].name, "bond0");
  EXPECT_EQ(host.nics[1].name, "veth0");
}

TEST_F(Sysfs, NamesThatNoFileCouldName) {
  netdev("eth[0", "10000");
  netdev("eth*", "");
  netdev("eth\xff", "10000");
  netdev("eth0", "10000");
  Host host = load();
  host.name = "node";
  ASSERT_EQ(host.nics.size(), 1u);
  EXPECT_EQ(host.nics[0].name, "eth0");
  ASSERT_EQ(host.warnings.size(), 3u);
  EXPECT_EQ(host.warnings[0].substr(0, 35), "a nic is called \"eth*\": not used, a");
  EXPECT_EQ(host_from_wire(to_wire(host)).nics.size(), 1u);
}

TEST_F(Sysfs, RdmaPorts) {
  const auto port = [&](const std::string& name, const std::string& layer, const std::string& rate,
                        const std::string& state) {
    write("class/infiniband/" + name + "/link_layer", layer);
    write("class/infiniband/" + name + "/rate", rate);
    write("class/infiniband/" + name + "/state", state);
  };
  netdev("ib0", "", "up", "32");
  netdev("ens1", "100000");
  port("mlx5_0/ports/1", "InfiniBand", "200 Gb/sec (4X HDR)", "4: ACTIVE");
  write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "ib0");
  port("mlx5_1/ports/1", "Ethernet", "100 Gb/sec (4X EDR)", "4: ACTIVE");
  write("class/infiniband/mlx5_1/device/net/ens1/dev_port", "0");
  port("mlx5_2/ports/1", "InfiniBand", "10 Gb/sec (4X)", "1: DOWN");
  const Host host = load();
  ASSERT_EQ(host.nics.size(), 3u);
  const Nic& ib = host.nics[0];
  EXPECT_EQ(ib.name, "ib0");
  EXPECT_EQ(ib.kind, LinkKind::kInfiniband);
  EXPECT_EQ(ib.bytes_per_second, (Quantity{25e9, Source::kDevice}));
  EXPECT_EQ(ib.rdma_device, "mlx5_0");
  EXPECT_EQ(ib.rdma_port, 1);
  const Nic& roce = host.nics[1];
  EXPECT_EQ(roce.name, "ens1");
  EXPECT_EQ(roce.kind, LinkKind::kRoce);
  EXPECT_EQ(roce.rdma_device, "mlx5_1");
  EXPECT_EQ(host.nics[2].name, "mlx5_2");
  EXPECT_FALSE(host.nics[2].up);
  EXPECT_EQ(usable_nics(host), (std::vector<int>{0, 1})) << "not the one that is down";
}

TEST_F(Sysfs, CpusAndCaches) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string dir = fmt::format("devices/system/cpu/cpu{}", cpu);
    write(dir + "/topology/physical_package_id", fmt::format("{}", cpu / 2));
    write(dir + "/topology/core_cpus_list", fmt::format("{}", cpu));
    write(dir + "/cache/index0/type", "Data");
    write(dir + "/cache/index0/level", "1");
    write(dir + "/cache/index0/size", "32K");
    write(dir + "/cache/index0/shared_cpu_list", fmt::format("{}", cpu));
  }
  write("devices/system/node/node0/cpulist", "0-3");
  Host host;
  load_sysfs_cpus(host, root_.string());
  ASSERT_EQ(host.packages.size(), 2u);
  EXPECT_EQ(host.packages[1].cpus.list(), "2-3");
  EXPECT_EQ(host.packages[1].cores.size(), 2u);
  ASSERT_EQ(host.caches.size(), 1u);
  EXPECT_EQ(host.caches[0].bytes, 32768u);
  EXPECT_EQ(host.caches[0].cpus.size(), 4u);
  EXPECT_EQ(host.numa_nodes.at(0).cpus.list(), "0-3");
}

TEST_F(Sysfs, AbsurdNumbersAreNone) {
  for (const char* absurd : {"nan", "inf", "1e300", "-1e300", "-2"}) {
    SCOPED_TRACE(absurd);
    netdev("eth0", absurd);
    write("devices/0000:00:03.0/numa_node", absurd);
    fs::remove(root_ / "class/net/eth0/device");
    link("class/net/eth0/device", "devices/0000:00:03.0");
    const std::string dir = "devices/system/cpu/cpu0";
    write(dir + "/topology/core_cpus_list", "0");
    write(dir + "/topology/physical_package_id", absurd);
    for (const char* name : {"level", "size"}) write(dir + "/cache/index0/" + name, absurd);
    write(dir + "/cache/index0/shared_cpu_list", "0");
    Host host = load();
    load_sysfs_cpus(host, root_.string());
    ASSERT_EQ(host.nics.size(), 1u);
    EXPECT_FALSE(host.nics[0].bytes_per_second.known());
    EXPECT_EQ(host.nics[0].numa, -1);
    EXPECT_TRUE(host.packages.empty());
    EXPECT_TRUE(host.caches.empty());
  }
}

TEST(Sysfs0, NothingThereIsNothing) {
  Host host;
  load_sysfs(host, "/nonexistent");
  load_sysfs_cpus(host, "/nonexistent");
  EXPECT_EQ(host, Host());
}

TEST(Discover, ThisMachine) {
  const Host host = discover_host();
  EXPECT_FALSE(host.name.empty());
  EXPECT_GE(host.packages.size(), 1u);
  int cpus = 0;
  for (const Package& package : host.packages) cpus += package.cpus.count();
  EXPECT_GE(cpus, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  for (const Nic& nic : host.nics) EXPECT_NE(nic.name, "lo");
  EXPECT_EQ(discover_host().id, host.id);
  EXPECT_EQ(host_from_wire(to_wire(host)), host);
}

TEST(NamedDevices, AreNicsOrInterfacesOfThisMachine) {
  Host host;
  host.nics.resize(2);
  host.nics[0].name = "eth8";
  host.nics[1].name = "ib0";
  host.nics[1].rdma_device = "mlx5_0";
  host.nics[1].rdma_port = 2;
  EXPECT_EQ(named_devices(host, "mlx5_0,eth8,ib0,mlx5_0:2", "X"),
            (std::vector<std::string>{"mlx5_0:2", "eth8", "ib0", "mlx5_0:2"}));
  EXPECT_EQ(named_devices(host, "lo", "X"), std::vector<std::string>{"lo"});
  for (const char* bad : {"eth77", "eth8,eth77", "mlx5_0:1", "eth8,", ""}) {
    try {
      named_devices(host, bad, "X");
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("\"; this host has eth8, ib0"), std::string::npos)
          << e.what();
    }
  }
}

// They answer what the device does not say.
TEST(Sysfs0, AnUnknownSpeedIsForgottenWhenAFileOrTheProbeSaysIt) {
  Fabric fabric;
  fabric.hosts.resize(1);
  Host& host = fabric.hosts[0];
  host.name = "a";
  host.nics.resize(2);
  host.nics[0].name = "eth1";
  host.nics[1].name = "eth10";
  for (const Nic& nic : host.nics)
    host.warnings.push_back(speed_unknown(nic.name) + ", the device does not say; measure it");
  apply(parse_fabric_file("[[host]]\nname = \"a\"\n[[host.nic]]\nname = \"eth1\"\n"
                          "bandwidth = \"1 gbit/s\"\n",
                          "test.toml"),
        fabric);
  ASSERT_EQ(host.warnings.size(), 1u);
  EXPECT_EQ(host.warnings[0].substr(0, 24), "nic eth10: speed unknown");
  EXPECT_NE(to_text(fabric).find("warning: nic eth10"), std::string::npos);
  TierNumbers measured;
  measured.tier = TierKind::kCluster;
  measured.bytes_per_second = {1e8, Source::kMeasured};
  fabric.tiers = {measured};
  EXPECT_EQ(to_text(fabric).find("warning: nic eth10"), std::string::npos) << to_text(fabric);
}

TEST(NcclXml, GpusNicsAndNvlinks) {
  const Host host = parse_nccl_xml(R"(<system version="1">
 <cpu numaid="0" affinity="0000000f">
  <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
   <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:12:00.0" count="4" tclass="0x030200"/>
     <nvlink target="0000:20:00.0" count="2" tclass="0x068000"/></gpu>
   </pci>
   <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="1" sm="80"><nvlink target="0000:11:00.0" count="4" tclass="0x030200"/>
     <nvlink target="0000:20:00.0" count="2" tclass="0x068000"/></gpu>
   </pci>
   <pci busid="0000:13:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
    <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1"/></nic>
   </pci>
  </pci>
  <nic><net name="eth0" dev="1" speed="10000" port="0"/></nic>
 </cpu></system>)",
                                   "dump.xml");
  ASSERT_EQ(host.gpus.size(), 2u);
  ASSERT_EQ(host.nics.size(), 2u);
  EXPECT_EQ(host.nics[1].name, "eth0");
  EXPECT_EQ(host.nics[1].bytes_per_second.value, 1.25e9);
  EXPECT_EQ(host.nics[0].name, "mlx5_0");
  EXPECT_EQ(host.nics[0].rdma_device, "mlx5_0");
  EXPECT_EQ(host.nics[0].kind, LinkKind::kInfiniband);
  EXPECT_EQ(host.nics[0].bytes_per_second.value, 25e9);
  ASSERT_EQ(host.nvlinks.size(), 3u);
  EXPECT_EQ(host.nvlinks[0].count, 4);
  EXPECT_EQ(host.nvlinks[0].bytes_per_second, (Quantity{100e9, Source::kDefault}));
  EXPECT_EQ(host.nvswitches.size(), 1u);
  EXPECT_EQ(nvlink_bytes_per_second(host, 0, 1), 150e9);
}

TEST(NcclXml, NicsWithoutAName) {
  const Host host = parse_nccl_xml(
      "<system><cpu><pci busid='0000:01:00.0' class='0x020000'><nic><net name=''/>"
      "<net name='eth[0'/><net name='eth1'/></nic></pci></cpu></system>",
      "t.xml");
  ASSERT_EQ(host.nics.size(), 1u);
  EXPECT_EQ(host.nics[0].name, "eth1");
  EXPECT_EQ(host.warnings.size(), 3u) << "two names, and no speed";
}

TEST(NcclXml, ErrorsAndDepth) {
  EXPECT_THROW(parse_nccl_xml("", "x"), Error);
  EXPECT_THROW(parse_nccl_xml("<system/>", "x"), Error);
  EXPECT_THROW(parse_nccl_xml("<other/>", "x"), Error);
  try {
    parse_nccl_xml("<system>\n<cpu", "x.xml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("x.xml:2:")) << e.what();
  }
  std::string deep = "<system><cpu numaid='0'>";
  for (int i = 0; i < 10000; ++i) deep += "<pci busid='0000:00:00.0'>";
  EXPECT_THROW(parse_nccl_xml(deep, "x"), Error);
}

TEST(Slurm, RacksByTheLastSwitch) {
  Fabric fabric;
  for (const char* name : {"n1", "n2", "n3", "n4"}) {
    fabric.hosts.emplace_back();
    fabric.hosts.back().name = name;
  }
  add_slurm_racks(fabric, {"core.leaf1.n1", "core.leaf2.n2", "core.leaf1.n3", "odd"},
                  "switch.switch.node");
  ASSERT_EQ(fabric.racks.size(), 2u);
  EXPECT_EQ(fabric.racks[0].name, "leaf1");
  EXPECT_EQ(fabric.racks[0].hosts, (std::vector<int>{0, 2}));
  EXPECT_EQ(fabric.warnings.size(), 1u);
  fabric.racks.resize(1);
  add_slurm_racks(fabric, {"a.b"}, "switch.node");
  EXPECT_EQ(fabric.racks.size(), 1u) << "a file's racks stay";
  Fabric flat;
  add_slurm_racks(flat, {"n1"}, "node");
  EXPECT_TRUE(flat.racks.empty());
  EXPECT_THROW(add_slurm_racks(flat, {"n1"}, "nonsense"), Error);
}

// Every truncation and many corruptions: an error or a host, never a crash.
TEST(Hostile, BentTopologyFiles) {
  std::mt19937 random(1);
  for (const char* name : {"ndv4-topo.xml", "p4d-24xl-topo.xml"}) {
    std::ifstream in(std::string(TOPOLOGIES) + "/" + name);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    ASSERT_FALSE(good.empty());
    for (int i = 0; i < 500; ++i) {
      std::string bent = good.substr(0, i % 2 == 0 ? random() % good.size() : good.size());
      for (int k = 0; k < 3 && !bent.empty(); ++k)
        bent[random() % bent.size()] = static_cast<char>(random());
      try {
        parse_nccl_xml(bent, name);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ECH_ERR_INVALID);
      }
    }
  }
}

TEST(Shared, Addresses) {
  EXPECT_EQ(normal_pci_address("0000:2B:00.0"), "0000:2b:00.0");
  EXPECT_EQ(normal_pci_address("2b:1f.7"), "0000:2b:1f.7");
  EXPECT_EQ(normal_pci_address("10000:e1:00.0"), "10000:e1:00.0");
  for (const char* bad : {"", "eth0", "0000:2b:00", "0000:2b:20.0", "0000:100:00.0", "1:2:3:4.5",
                          "virtio2", "pci0000:00"})
    EXPECT_EQ(normal_pci_address(bad), "") << bad;
  EXPECT_NEAR(pcie_bytes_per_second(16, 16), 31.5e9, 0.1e9);
  EXPECT_EQ(pcie_bytes_per_second(0, 16), 0);
  EXPECT_EQ(printable("a\nb\xff"), "a?b?");
  EXPECT_EQ(CpuSet::parse("0-3,8,10-11")->list(), "0-3,8,10-11");
  EXPECT_EQ(CpuSet::parse_mask("00000001,0000000f")->list(), "0-3,32");
  for (const char* bad : {"3-1", "a", "1,", "-1", "99999999"}) EXPECT_FALSE(CpuSet::parse(bad));
}

}  // namespace
}  // namespace echelon
