// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "lib/base/error.h"
#include "lib/fabric/place.h"
#include "tests/support/ranks.h"

namespace echelon {
namespace {

constexpr double kGigabit = 0.125e9;

Host host_with(std::string name, std::vector<double> nic_speeds, int packages = 1) {
  Host host;
  host.name = name;
  host.id = name;
  for (int p = 0; p < packages; ++p)
    host.packages.push_back({"", CpuSet::range(4 * p, 4 * p + 3), {}});
  for (std::size_t i = 0; i < nic_speeds.size(); ++i) {
    Nic nic;
    nic.name = fmt::format("eth{}", i);
    if (nic_speeds[i] > 0) nic.bytes_per_second = {nic_speeds[i], Source::kDevice};
    host.nics.push_back(nic);
  }
  return host;
}

std::vector<RankPlace> ranks_on(std::vector<int> per_host) {
  std::vector<RankPlace> places;
  for (std::size_t h = 0; h < per_host.size(); ++h)
    for (int i = 0; i < per_host[h]; ++i) {
      places.emplace_back();
      places.back().host = static_cast<int>(h);
    }
  return places;
}

std::string tiers_of(const Layout& layout) {
  std::string out;
  for (const Tier& tier : layout.tiers)
    out += fmt::format("{}:{} ", name(tier.kind), tier.groups.size());
  return out;
}

TEST(MakeLayout, HostsOfOneMachineShareItsCpus) {
  Fabric fabric;
  for (const char* name : {"a", "b", "c"}) fabric.hosts.push_back(host_with(name, {kGigabit}));
  std::vector<RankPlace> places = ranks_on({3, 1, 2});
  EXPECT_EQ(make_layout(fabric, places).cpus_per_rank, 1) << "nothing is known";
  for (RankPlace& place : places) place.cpus = CpuSet::range(0, 3);
  EXPECT_EQ(make_layout(fabric, places).cpus_per_rank, 1) << "three machines";
  for (RankPlace& place : places) place.machine = place.host == 1 ? "other" : "one";
  EXPECT_EQ(make_layout(fabric, places).cpus_per_rank, 4.0 / 5);
  for (RankPlace& place : places) place.cpus = CpuSet::range(place.host, place.host);
  EXPECT_EQ(make_layout(fabric, places).cpus_per_rank, 2.0 / 5) << "each host has one of its own";
  places[5].cpus = {};
  EXPECT_EQ(make_layout(fabric, places).cpus_per_rank, 1) << "one may run anywhere";
}

TEST(MakeLayout, UnequalHosts) {
  Fabric fabric;
  for (const char* name : {"a", "b", "c"}) fabric.hosts.push_back(host_with(name, {kGigabit}));
  const Layout layout = make_layout(fabric, ranks_on({3, 1, 2}));
  EXPECT_EQ(validate(layout), "");
  EXPECT_EQ(tiers_of(layout), "host:3 cluster:1 ");
  EXPECT_EQ(layout.host_of_rank, (std::vector<int>{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(layout.ranks_of_host(2), (std::vector<int>{4, 5}));
  const TierGroup& all = layout.tiers[1].groups[0];
  EXPECT_EQ(all.children.size(), 3u);
  EXPECT_EQ(all.child_bandwidth, (std::vector<double>(3, kGigabit)));
  EXPECT_EQ(all.child_source, Source::kDevice);
  EXPECT_EQ(all.link.kind, LinkKind::kEthernet);
  EXPECT_EQ(all.link.bytes_per_second, kGigabit);
  EXPECT_EQ(all.link.source, Source::kDevice);
  const TierGroup& host = layout.tiers[0].groups[0];
  EXPECT_EQ(host.link.kind, LinkKind::kShm);
  EXPECT_EQ(host.link.source, Source::kDefault);
  EXPECT_EQ(host.child_bandwidth, (std::vector<double>(3, 0)));
}

TEST(MakeLayout, HostsAreNumberedByTheirFirstRankWhateverTheFabricSays) {
  Fabric fabric;
  for (const char* name : {"a", "b"}) fabric.hosts.push_back(host_with(name, {kGigabit}));
  std::vector<RankPlace> places(4);
  places[0].host = places[2].host = 1;  // ranks 0, 2 on b; 1, 3 on a
  const Layout layout = make_layout(fabric, places);
  EXPECT_EQ(validate(layout), "");
  EXPECT_EQ(layout.host_names, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(layout.host_of_rank, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(layout.tiers[0].groups[0].ranks.ranks(), (std::vector<int>{0, 2}));
}

TEST(MakeLayout, SocketsOnlyWhereTheySplitAHost) {
  Fabric fabric;
  fabric.hosts = {host_with("a", {kGigabit}, 2), host_with("b", {kGigabit}, 2)};
  std::vector<RankPlace> places = spread_ranks(fabric, 2);
  EXPECT_EQ(tiers_of(make_layout(fabric, places)), "cluster:1 ");

  for (Host& host : fabric.hosts) host.ranks = 4;
  places = spread_ranks(fabric, 0);
  const Layout layout = make_layout(fabric, places);
  EXPECT_EQ(validate(layout), "");
  EXPECT_EQ(tiers_of(layout), "socket:4 host:2 cluster:1 ");
  EXPECT_EQ(layout.tiers[0].groups[1].ranks.ranks(), (std::vector<int>{2, 3}));

  for (RankPlace& place : places) place.cpus = CpuSet::range(0, 7), place.package = -1;
  EXPECT_EQ(tiers_of(make_layout(fabric, places)), "host:2 cluster:1 ") << "unbound ranks";
  for (Host& host : fabric.hosts) host.ranks = 2;
  EXPECT_EQ(tiers_of(make_layout(fabric, spread_ranks(fabric, 0))), "host:2 cluster:1 ");
}

TEST(MakeLayout, SmallCases) {
  Fabric fabric;
  fabric.hosts = {host_with("a", {}), host_with("b", {})};
  EXPECT_EQ(tiers_of(make_layout(fabric, ranks_on({1}))), "");
  EXPECT_EQ(tiers_of(make_layout(fabric, ranks_on({2}))), "host:1 ");
  EXPECT_EQ(tiers_of(make_layout(fabric, ranks_on({1, 1}))), "cluster:1 ");
  const Layout layout = make_layout(fabric, ranks_on({1, 1}));
  ASSERT_EQ(layout.warnings.size(), 1u);
  EXPECT_NE(layout.warnings[0].find("a"), std::string::npos);
  EXPECT_EQ(layout.tiers[0].groups[0].link.source, Source::kDefault);
  EXPECT_THROW(make_layout(fabric, ranks_on({1, 1, 1})), Error);
  EXPECT_THROW(spread_ranks(fabric, 3), Error);
}

Fabric two_racks() {
  Fabric fabric;
  for (const char* name : {"a", "b", "c", "d"}) fabric.hosts.push_back(host_with(name, {kGigabit}));
  fabric.racks = {{"r0", {0, 1}, {10 * kGigabit, Source::kFile}}, {"r1", {2, 3}, {}}};
  return fabric;
}

TEST(MakeLayout, RacksHaveTheirUplinkOrTheSumOfTheirHostsAndSayWhich) {
  const Fabric fabric = two_racks();
  const Layout layout = make_layout(fabric, ranks_on({2, 2, 2, 2}));
  EXPECT_EQ(validate(layout), "");
  EXPECT_EQ(tiers_of(layout), "host:4 rack:2 cluster:1 ");
  EXPECT_EQ(layout.tier(TierKind::kRack)->groups[1].child_bandwidth,
            (std::vector<double>{kGigabit, kGigabit}));
  const TierGroup& all = layout.tier(TierKind::kCluster)->groups[0];
  EXPECT_EQ(all.child_bandwidth, (std::vector<double>{10 * kGigabit, 2 * kGigabit}));
  EXPECT_EQ(all.child_source, Source::kDefault);
  ASSERT_EQ(layout.warnings.size(), 1u);
  EXPECT_NE(layout.warnings[0].find("r1"), std::string::npos);
}

TEST(MakeLayout, RacksThatSayNothingAreNoTier) {
  Fabric fabric = two_racks();
  EXPECT_EQ(tiers_of(make_layout(fabric, ranks_on({2, 2}))), "host:2 cluster:1 ");
  fabric.racks[0].uplink.value = kGigabit / 2;
  std::vector<RankPlace> places(2);
  places[1].host = 2;
  const Layout layout = make_layout(fabric, places);
  EXPECT_EQ(tiers_of(layout), "cluster:1 ");
  EXPECT_EQ(layout.tiers[0].groups[0].child_bandwidth[0], kGigabit / 2) << "the narrow uplink";
}

TEST(MakeLayout, NumbersOfTheFileGoFirst) {
  Fabric fabric = two_racks();
  fabric.tiers = {{TierKind::kHost, LinkKind::kNvlink, {300e9, Source::kFile}, {}},
                  {TierKind::kCluster, {}, {}, {5e-6, Source::kFile}}};
  Layout layout = make_layout(fabric, ranks_on({2, 2, 2, 2}));
  const Link host = layout.tier(TierKind::kHost)->groups[0].link;
  EXPECT_EQ(host.kind, LinkKind::kNvlink);
  EXPECT_EQ(host.bytes_per_second, 300e9);
  EXPECT_EQ(host.source, Source::kFile);
  EXPECT_EQ(layout.tier(TierKind::kCluster)->groups[0].link.latency, 5e-6);

  apply_measured(layout, TierKind::kHost, {LinkKind::kShm, 1e-6, 8e9, Source::kMeasured});
  EXPECT_EQ(layout.tier(TierKind::kHost)->groups[0].link.bytes_per_second, 300e9);
  EXPECT_EQ(layout.tier(TierKind::kHost)->groups[0].link.latency, 1e-6) << "the file says nothing";
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 9e-6, 1e9, Source::kMeasured});
  EXPECT_EQ(layout.tier(TierKind::kCluster)->groups[0].link.latency, 5e-6);
}

TEST(Layout, ARankHasTheFastestNicOfItsHost) {
  Fabric fabric;
  fabric.hosts = {host_with("a", {25 * kGigabit, 10 * kGigabit}), host_with("b", {40 * kGigabit})};
  const TierGroup all = make_layout(fabric, ranks_on({2, 2})).tiers[1].groups[0];
  EXPECT_EQ(all.one_nic, 25 * kGigabit);
}

TEST(ApplyMeasured, ReplacesWhatTheDeviceClaims) {
  Fabric fabric;
  for (const char* name : {"a", "b"})
    fabric.hosts.push_back(host_with(name, {10 * kGigabit, 10 * kGigabit}));
  Layout layout = make_layout(fabric, ranks_on({2, 2}));
  EXPECT_EQ(layout.tiers[1].groups[0].child_bandwidth[0], 20 * kGigabit);
  EXPECT_EQ(layout.tiers[1].groups[0].one_nic, 10 * kGigabit);
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 50e-6, kGigabit, {}});
  const TierGroup& all = layout.tiers[1].groups[0];
  EXPECT_EQ(all.link.bytes_per_second, kGigabit);
  EXPECT_EQ(all.link.latency, 50e-6);
  EXPECT_EQ(all.link.source, Source::kMeasured);
  EXPECT_EQ(all.child_bandwidth[0], 2 * kGigabit) << "two nics, each as slow as measured";
  EXPECT_EQ(all.one_nic, kGigabit);
  EXPECT_EQ(all.child_source, Source::kMeasured);
  EXPECT_EQ(validate(layout), "");
}

TEST(ApplyMeasured, NoLinkIsSlowerThanWhatHasPassedIt) {
  Fabric fabric;
  for (const char* name : {"a", "b", "c"}) fabric.hosts.push_back(host_with(name, {10 * kGigabit}));
  fabric.hosts.push_back(host_with("d", {kGigabit}));
  Layout layout = make_layout(fabric, ranks_on({2, 2, 2, 2}));
  const TierGroup& all = layout.tiers[1].groups[0];
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 50e-6, 8 * kGigabit, {}});
  EXPECT_EQ(all.child_bandwidth[0], 10 * kGigabit) << "a stream may be slower than the devices";
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 50e-6, 56 * kGigabit, {}});
  EXPECT_EQ(all.child_bandwidth,
            (std::vector{56 * kGigabit, 56 * kGigabit, 56 * kGigabit, kGigabit}))
      << "those of which the same is said as of the first two, and no others";
  EXPECT_EQ(all.one_nic, kGigabit);
}

TEST(ApplyMeasured, NeitherIsTheNicThatOneRankHas) {
  Fabric fabric;
  for (const char* name : {"a", "b"}) fabric.hosts.push_back(host_with(name, {10 * kGigabit}));
  Layout layout = make_layout(fabric, ranks_on({2, 2}));
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 5e-6, 56 * kGigabit, {}});
  EXPECT_EQ(layout.tiers[1].groups[0].one_nic, 56 * kGigabit);
}

TEST(ApplyMeasured, WhatTheFileSaysStays) {
  Fabric fabric;
  for (const char* name : {"a", "b"}) fabric.hosts.push_back(host_with(name, {kGigabit}));
  for (Host& host : fabric.hosts) host.nics[0].bytes_per_second.source = Source::kFile;
  Layout layout = make_layout(fabric, ranks_on({1, 1}));
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 50e-6, 2 * kGigabit, {}});
  EXPECT_EQ(layout.tiers[0].groups[0].child_bandwidth[0], kGigabit);
}

// So that plans from a dump are those of the communicator that wrote it.
TEST(AddMeasured, GivesTheFabricWhatPlansRestOn) {
  Fabric fabric;
  for (const char* name : {"a", "b"})
    fabric.hosts.push_back(host_with(name, {10 * kGigabit, 10 * kGigabit}));
  fabric.tiers = {{TierKind::kCluster, {}, {}, {5e-6, Source::kFile}}};
  const Quantity speed{kGigabit, Source::kMeasured}, latency{50e-6, Source::kMeasured};
  add_measured(fabric, {{TierKind::kHost, {}, speed, latency}});
  add_measured(fabric, {{TierKind::kCluster, {}, speed, latency}});
  ASSERT_EQ(fabric.tiers.size(), 2u);
  EXPECT_EQ(fabric.tiers[0].bytes_per_second, speed);
  EXPECT_EQ(fabric.tiers[0].latency.value, 5e-6) << "the file says so";
  EXPECT_EQ(fabric.tiers[1].latency, latency);
  const TierGroup all = make_layout(fabric, ranks_on({2, 2})).tiers[1].groups[0];
  EXPECT_EQ(all.link.bytes_per_second, kGigabit);
  EXPECT_EQ(all.link.source, Source::kMeasured);
  EXPECT_EQ(all.link.latency, 5e-6);
  EXPECT_EQ(all.child_bandwidth[0], 2 * kGigabit) << "two nics, each as slow as measured";
  const Quantity again{2 * kGigabit, Source::kMeasured};
  add_measured(fabric, {{TierKind::kCluster, {}, again, latency}});
  EXPECT_EQ(fabric.tiers[0].bytes_per_second, again);
}

TEST(AddMeasured, NumbersOfADeviceThatTheFileStatesStay) {
  Fabric fabric;
  for (const char* name : {"a", "b"}) fabric.hosts.push_back(host_with(name, {kGigabit}));
  for (Host& host : fabric.hosts) host.nics[0].bytes_per_second = {kGigabit, Source::kFile};
  add_measured(fabric,
               {{TierKind::kCluster, {}, {7e6, Source::kMeasured}, {1e-6, Source::kMeasured}}});
  const TierGroup all = make_layout(fabric, ranks_on({1, 1})).tiers[0].groups[0];
  EXPECT_EQ(all.link.bytes_per_second, kGigabit);
  EXPECT_EQ(all.link.source, Source::kFile);
  EXPECT_EQ(all.child_bandwidth[0], kGigabit);
  EXPECT_EQ(all.link.latency, 1e-6);
}

TEST(Validate, NamesWhatIsWrong) {
  const Fabric fabric = two_racks();
  const Layout good = make_layout(fabric, ranks_on({2, 2, 2, 2}));
  Layout bad = good;
  bad.tiers[0].groups[1].ranks = Group(std::vector<int>{3, 2});
  EXPECT_NE(validate(bad), "");
  bad = good;
  bad.tiers.pop_back();
  EXPECT_EQ(validate(bad), "the last tier does not join all ranks");
  bad = good;
  std::swap(bad.tiers[0], bad.tiers[1]);
  EXPECT_NE(validate(bad), "");
  bad = good;
  bad.host_of_rank[0] = 1;
  EXPECT_EQ(validate(bad), "hosts are not numbered by their first rank");
  bad = good;
  bad.tiers[1].groups[0].child_bandwidth.pop_back();
  EXPECT_NE(validate(bad).find("tier rack"), std::string::npos);
  bad = good;
  bad.tiers.push_back(bad.tiers.back());
  EXPECT_NE(validate(bad), "");
}

TEST(Merge, RanksOfOneIdShareAHost) {
  const Host a = host_with("a", {kGigabit}), b = host_with("b", {kGigabit});
  Host other_a = a;
  other_a.id = "another machine";
  const std::vector<Host> of_rank{a, b, a, other_a};
  const Merged merged = merge(of_rank);
  EXPECT_EQ(merged.host_of_rank, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(merged.fabric.hosts.size(), 3u);
  EXPECT_EQ(merged.fabric.warnings.size(), 1u);
}

TEST(Nics, AreDealtOutOverLocalRanks) {
  Fabric fabric;
  fabric.hosts = {host_with("a", {kGigabit, kGigabit})};
  const auto of = [&](const std::vector<RankPlace>& places, int rank) {
    return nics_of_rank(fabric, places, rank);
  };
  EXPECT_EQ(of(ranks_on({1}), 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(of(ranks_on({2}), 1), (std::vector<int>{1}));
  EXPECT_EQ(of(ranks_on({3}), 2), (std::vector<int>{0}));
}

TEST(Nics, NearOnesFirstAndNoneIdle) {
  Fabric fabric;
  fabric.hosts = {host_with("a", {kGigabit, kGigabit}, 2)};
  Host& host = fabric.hosts[0];
  for (int p = 0; p < 2; ++p) host.numa_nodes.push_back({p, p, 0, host.packages[p].cpus});
  host.nics[0].numa = 1;
  host.nics[1].numa = 0;
  host.ranks = 2;
  std::vector<RankPlace> places = spread_ranks(fabric, 0);
  EXPECT_EQ(nics_of_rank(fabric, places, 0), (std::vector<int>{1}));
  EXPECT_EQ(nics_of_rank(fabric, places, 1), (std::vector<int>{0}));
  places[1] = places[0];
  EXPECT_EQ(nics_of_rank(fabric, places, 0), (std::vector<int>{1, 0}));
  EXPECT_EQ(nics_of_rank(fabric, places, 1), (std::vector<int>{1}));
}

TEST(Nics, OnlyUsableOnes) {
  Host host = host_with("a", {kGigabit, 10 * kGigabit, 10 * kGigabit, 10 * kGigabit});
  EXPECT_EQ(usable_nics(host), (std::vector<int>{1, 2, 3})) << "the slow one is for management";
  host.nics[2].up = false;
  EXPECT_EQ(usable_nics(host), (std::vector<int>{1, 3}));
  host.nics[1].addresses = {"10.0.0.1"};
  EXPECT_EQ(usable_nics(host), (std::vector<int>{1})) << "nothing reaches one without address";
  host.nics[3].kind = LinkKind::kInfiniband;
  host.nics[3].rdma_device = "mlx5_0";
  host.nics[3].rdma_port = 1;
  EXPECT_EQ(usable_nics(host), (std::vector<int>{3}));
  EXPECT_EQ(ucx_devices(host, std::vector<int>{3, 1}),
            (std::vector<std::string>{"mlx5_0:1", "eth3", "eth1"}));
}

TEST(Scale, SixteenThousandRanks) {
  Fabric fabric;
  for (int h = 0; h < 2048; ++h) {
    fabric.hosts.push_back(host_with(fmt::format("node{}", h), std::vector<double>(8, 25e9), 2));
    fabric.hosts.back().ranks = 8;
  }
  for (int r = 0; r < 64; ++r) {
    fabric.racks.push_back({fmt::format("r{}", r), {}, {400e9, Source::kFile}});
    for (int h = 0; h < 32; ++h) fabric.racks.back().hosts.push_back(32 * r + h);
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<RankPlace> places = spread_ranks(fabric, 16384);
  const Layout layout = make_layout(fabric, places);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(tiers_of(layout), "socket:4096 host:2048 rack:64 cluster:1 ");
  EXPECT_EQ(validate(layout), "");
  EXPECT_LT(took.count(), 1.0 * test::kSlowness);
  RecordProperty("seconds", std::to_string(took.count()));
}

}  // namespace
}  // namespace echelon
