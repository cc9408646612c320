// SPDX-License-Identifier: Apache-2.0
// The checks of fabric, NICs and UCX, on hosts made by hand.
#include <gtest/gtest.h>

#include "tests/unit/doctor/fixture.h"

namespace echelon::doctor {
namespace {

TEST(Loopback, MustAnswer) {
  FakeHost host;
  EXPECT_EQ(check_loopback(host.view).verdict, Verdict::kOk);
  host.probes().loopback = {Outcome::kNoRoute, "127.0.0.1:5", "Network is unreachable"};
  EXPECT_EQ(said(check_loopback(host.view)),
            "broken: no connection to 127.0.0.1:5: Network is unreachable");
}

TEST(FabricFile, ABadOneBreaks) {
  FakeHost host;
  EXPECT_EQ(said(check_fabric(host.view)), "ok: 1 socket, 0 NUMA nodes, 1 NIC, 0 GPUs");
  host.probes().options.fabric_file = "lab.toml";
  EXPECT_TRUE(contains(said(check_fabric(host.view)), "with what lab.toml says"));
  host.probes().fabric_error = "lab.toml:3: unknown key";
  EXPECT_EQ(said(check_fabric(host.view)), "broken: ECHELON_FABRIC: lab.toml:3: unknown key");
  EXPECT_TRUE(contains(check_fabric(host.view).remedy, "ECHELON_FABRIC"));
}

TEST(Nics, SpeedsAndSourcesAreTold) {
  FakeHost host;
  host.add_nic("eth1", 0.5, "10.0.1.1");
  host.add_nic("eth2", 10, "10.0.2.1").up = false;
  EXPECT_EQ(said(check_nics(host.view)),
            "ok: eth0 ethernet 10 Gbit/s (device); not used: eth1; down: eth2");
}

TEST(Nics, AnUnknownSpeedCosts) {
  FakeHost host;
  host.probes().fabric.nics[0].bytes_per_second = {};
  const Finding finding = check_nics(host.view);
  EXPECT_EQ(said(finding), "costs: eth0 ethernet 1 Gbit/s (default)");
  EXPECT_TRUE(contains(finding.why, "eth0"));
}

TEST(Nics, NoneIsNoHarmToASingleHost) {
  FakeHost host;
  host.probes().fabric.nics[0].up = false;
  EXPECT_EQ(check_nics(host.view).verdict, Verdict::kOk);
  host.view.job.hosts = 2;
  EXPECT_EQ(said(check_nics(host.view)), "broken: none that is up and has an address; down: eth0");
}

TEST(Congestion, BbrCostsBetweenHosts) {
  FakeHost host;
  host.view.job.hosts = 2;
  EXPECT_EQ(said(check_congestion(host.view)), "ok: cannot be read");
  const std::string control = "/proc/sys/net/ipv4/tcp_congestion_control";
  host.put(control, "cubic\n");
  EXPECT_EQ(said(check_congestion(host.view)), "ok: cubic");
  host.put(control, "bbr\n");
  EXPECT_EQ(said(check_congestion(host.view)), "costs: bbr");
  host.probes().fabric.nics[0].kind = LinkKind::kInfiniband;
  EXPECT_EQ(said(check_congestion(host.view)), "ok: bbr");
  host.probes().fabric.nics[0].kind = LinkKind::kEthernet;
  host.view.job.hosts = 1;
  EXPECT_EQ(check_congestion(host.view).verdict, Verdict::kOk);
}

TEST(NicBalance, UnequalOnesCost) {
  FakeHost host;
  EXPECT_EQ(check_nic_balance(host.view).verdict, Verdict::kOk);
  host.add_nic("eth1", 10, "10.0.1.1");
  EXPECT_EQ(said(check_nic_balance(host.view)), "ok: 2 equal NICs in use");
  host.add_nic("eth2", 6, "10.0.2.1");
  EXPECT_EQ(said(check_nic_balance(host.view)), "costs: eth2 has 6 Gbit/s, eth1 has 10 Gbit/s");
}

TEST(UsedNics, AreKnownByTheirIpv4Address) {
  FakeHost host;
  host.probes().fabric.nics[0].addresses = {"fd00::1", "10.0.0.9"};
  host.add_nic("eth1", 10, "fd00::2");
  const auto nics = used_nics(host.view);
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics[0], (NicFact{"eth0", "ethernet", 1.25e9, "10.0.0.9"}));
  EXPECT_EQ(nics[1].address, "fd00::2");
}

TEST(Speed, IsShownInBits) {
  EXPECT_EQ(speed_text(1.25e7), "100 Mbit/s");
  EXPECT_EQ(speed_text(1.25e8), "1 Gbit/s");
  EXPECT_EQ(speed_text(3.125e9), "25 Gbit/s");
}

TEST(Ucx, IsNeededBetweenHosts) {
  FakeHost host;
  EXPECT_EQ(said(check_ucx(host.view)), "ok: 1.13.1");
  host.probes().ucx = {};
  EXPECT_EQ(said(check_ucx(host.view)), "costs: not in this build");
  EXPECT_EQ(said(check_transports(host.view)), "ok: none without UCX");
  host.view.job.hosts = 2;
  EXPECT_EQ(said(check_ucx(host.view)), "broken: not in this build");
}

TEST(Ucx, AnOlderOneThanAtBuildTimeCosts) {
  FakeHost host;
  host.probes().ucx = {"1.13", "1.9.0"};
  EXPECT_EQ(said(check_ucx(host.view)), "costs: 1.9.0, but Echelon was built with 1.13");
  host.probes().ucx.loaded = "1.16.0";
  EXPECT_EQ(check_ucx(host.view).verdict, Verdict::kOk);
}

TEST(Transports, AreListedByDevice) {
  FakeHost host;
  EXPECT_EQ(said(check_transports(host.view)), "ok: tcp on eth0 lo");
  host.probes().ways = {{"posix", "memory", false}};
  EXPECT_EQ(said(check_transports(host.view)), "ok: none that leads to other hosts");
}

TEST(Transports, WhatPreventsOpeningBreaksSeveralHosts) {
  FakeHost host;
  host.probes().ucx_error = "ucx: opening transports 'foo' on devices 'eth0': No such device";
  EXPECT_EQ(check_transports(host.view).verdict, Verdict::kCosts);
  host.view.job.hosts = 2;
  EXPECT_EQ(said(check_transports(host.view)),
            "broken: ucx: opening transports 'foo' on devices 'eth0': No such device (tcp on eth0 "
            "lo)");
}

TEST(Transports, AnRdmaPortThatOnlyTcpServesCosts) {
  FakeHost host;
  Nic& nic = host.add_nic("ib0", 100, "10.1.0.1");
  nic.kind = LinkKind::kInfiniband;
  nic.rdma_device = "mlx5_0";
  host.probes().ways.push_back({"tcp", "ib0", true});
  EXPECT_EQ(said(check_transports(host.view)), "costs: tcp on eth0 ib0 lo; no RDMA on mlx5_0");
  host.probes().ways.push_back({"rc_verbs", "mlx5_0:1", true});
  EXPECT_EQ(said(check_transports(host.view)), "ok: rc_verbs on mlx5_0:1, tcp on eth0 ib0 lo");
}

}  // namespace
}  // namespace echelon::doctor
