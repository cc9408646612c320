// SPDX-License-Identifier: Apache-2.0
#include "lib/introduction.h"

#include <gtest/gtest.h>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/device_media.h"

namespace echelon {
namespace {

template <typename Decode>
std::string error_of(const Decode& decode) {
  try {
    decode();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "";
}

Address standby() {
  Address address = *parse_address("10.0.0.7");
  address.set_port(40'007);
  return address;
}

const Introduction kSample = [] {
  Introduction sample;
  sample.host_id = "boot:1";
  sample.host_name = "node7";
  sample.cpus = CpuSet::range(2, 5);
  sample.slurm_address = "leaf.node7";
  sample.slurm_pattern = "switch.node";
  sample.machine = "boot";
  sample.settings = "plan \"\"";
  sample.pid = 77;
  sample.gpu = {"uuid", "no\nGPU", 22304, "no\nNCCL", "0000:2b:00.0", true};
  sample.standby = standby();
  return sample;
}();

// By their PCI address, whatever order the fabric has them in.
TEST(PlaceGpus, AreFoundInTheFabricOfTheirHost) {
  Fabric fabric;
  fabric.hosts.resize(2);
  for (const char* pci : {"0000:aa:00.0", "0000:2b:00.0"}) {
    fabric.hosts[1].gpus.push_back({});
    fabric.hosts[1].gpus.back().pci = pci;
  }
  std::vector<Introduction> ranks(3, kSample);
  ranks[2].gpu.pci = "";
  std::vector<RankPlace> places(3);
  places[1].host = places[2].host = 1;
  place_gpus(ranks, fabric, places);
  EXPECT_EQ(places[0].gpu, -1) << "its host has none there";
  EXPECT_EQ(places[1].gpu, 1);
  EXPECT_EQ(places[2].gpu, -1);
}

// A rank uses the NIC near its GPU, not the one near its cores; by its cores where nobody knows
// where the GPU is.
TEST(PlaceGpus, DecideWhichNicARankUses) {
  Fabric fabric;
  fabric.hosts.resize(1);
  Host& host = fabric.hosts[0];
  host.numa_nodes = {{0, 0, 0, CpuSet::range(0, 3)}, {1, 1, 0, CpuSet::range(4, 7)}};
  host.nics.resize(2);
  host.gpus.resize(1);
  for (int n = 0; n < 2; ++n) {
    host.nics[n].name = n == 0 ? "eth0" : "eth1";
    host.nics[n].numa = n;
  }
  host.gpus[0].pci = "0000:2b:00.0";
  host.gpus[0].numa = 1;
  std::vector<RankPlace> places(1);
  places[0].cpus = CpuSet::range(0, 3);
  EXPECT_EQ(nics_of_rank(fabric, places, 0).front(), 0);
  place_gpus({kSample}, fabric, places);
  EXPECT_EQ(nics_of_rank(fabric, places, 0).front(), 1);
  host.gpus[0].numa = -1;
  EXPECT_EQ(nics_of_rank(fabric, places, 0).front(), 0);
}

TEST(Introduction, RoundTrip) {
  const Introduction back = introduction_from_wire(to_wire(kSample));
  EXPECT_EQ(back.host_id, kSample.host_id);
  EXPECT_EQ(back.host_name, kSample.host_name);
  EXPECT_EQ(back.cpus, kSample.cpus);
  EXPECT_EQ(back.slurm_address, kSample.slurm_address);
  EXPECT_EQ(back.slurm_pattern, kSample.slurm_pattern);
  EXPECT_EQ(back.machine, kSample.machine);
  EXPECT_EQ(back.settings, kSample.settings);
  EXPECT_EQ(back.pid, kSample.pid);
  EXPECT_EQ(back.gpu.uuid, "uuid");
  EXPECT_EQ(back.gpu.absence, "no?GPU") << "is shown to people";
  EXPECT_EQ(back.gpu.nccl, 22304);
  EXPECT_EQ(back.gpu.no_nccl, "no?NCCL");
  EXPECT_EQ(back.gpu.pci, "0000:2b:00.0");
  EXPECT_TRUE(back.gpu.shares);
  EXPECT_EQ(back.standby->text(), "10.0.0.7:40007");
  Introduction survivor = kSample;
  survivor.standby.reset();
  EXPECT_FALSE(introduction_from_wire(to_wire(survivor)).standby);
}

TEST(Introduction, AnAddressThatIsNoneIsAnError) {
  const auto with = [](const std::string& host, std::uint32_t port) {
    Introduction odd = kSample;
    odd.standby.reset();
    std::string bytes = to_wire(odd);
    bytes.resize(bytes.size() - 8);
    return bytes + ByteWriter().text(host).u32(port).take();
  };
  EXPECT_EQ(error_of([&] { introduction_from_wire(with("fd00::1", 1)); }), "");
  for (const std::string& bytes : {with("10.0.0.1", 0), with("10.0.0.1", 65536), with("", 1),
                                   with("node7", 80), with("10.0.0.1\n", 80)})
    EXPECT_NE(error_of([&] { introduction_from_wire(bytes); }).find("address"), std::string::npos);
}

TEST(Introduction, EveryOtherLengthIsAnError) {
  const std::string good = to_wire(kSample);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(error_of([&] { introduction_from_wire(good.substr(0, n)); }), "") << n;
  EXPECT_NE(error_of([&] { introduction_from_wire(good + "x"); }), "");
}

TEST(Introduction, WhatIsShownToPeopleIsOneLine) {
  Introduction odd = kSample;
  odd.host_name = "node\n\x1b[2J";
  EXPECT_EQ(introduction_from_wire(to_wire(odd)).host_name, "node??[2J");
}

TEST(Introduction, CpusThatAreNoneAreAnError) {
  const std::string bytes = ByteWriter()
                                .text("")
                                .text("")
                                .text("5-2")
                                .text("")
                                .text("")
                                .text("")
                                .text("")
                                .u32(1)
                                .text("")
                                .text("")
                                .u32(0)
                                .text("")
                                .text("")
                                .u32(0)
                                .text("")
                                .u32(0)
                                .take();
  EXPECT_NE(error_of([&] { introduction_from_wire(bytes); }).find("5-2"), std::string::npos);
}

TEST(MediaAddresses, RoundTripAndNothingElse) {
  const std::string good =
      to_wire(MediaAddresses{"net", std::string("sh\0m", 4), "ucx", "id", "no", true, "all"});
  const MediaAddresses back = media_addresses_from_wire(good);
  EXPECT_EQ(back.network, "net");
  EXPECT_EQ(back.shared.size(), 4u);
  EXPECT_EQ(back.gpu_network + back.gpu_group + back.gpu_absence, "ucxidno");
  EXPECT_TRUE(back.gpu_staged);
  EXPECT_NE(error_of([&] { media_addresses_from_wire(good.substr(1)); }), "");
  EXPECT_NE(error_of([&] { media_addresses_from_wire(good + "x"); }), "");
}

TEST(MeasuredLink, RoundTripAndNothingThatNoLinkHas) {
  const MeasuredLink back = measured_link_from_wire(to_wire(MeasuredLink{2e-6, 1e9}));
  EXPECT_EQ(back.latency, 2e-6);
  EXPECT_EQ(back.bytes_per_second, 1e9);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double odd : {-1.0, kNan, kInfinity, -kInfinity, 1e300}) {
    EXPECT_NE(error_of([&] { measured_link_from_wire(to_wire(MeasuredLink{odd, 1e9})); }), "");
    EXPECT_NE(error_of([&] { measured_link_from_wire(to_wire(MeasuredLink{1e-6, odd})); }), "");
  }
  EXPECT_NE(error_of([&] { measured_link_from_wire(to_wire(MeasuredLink{1e-6, 0})); }), "");
  const std::string good = to_wire(MeasuredLink{2e-6, 1e9});
  EXPECT_NE(error_of([&] { measured_link_from_wire(good + "x"); }), "");
  EXPECT_NE(error_of([&] { measured_link_from_wire(good.substr(1)); }), "");
}

}  // namespace
}  // namespace echelon
