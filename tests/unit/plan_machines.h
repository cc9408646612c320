// SPDX-License-Identifier: Apache-2.0
// Layouts of hosts in racks, for tests of plans.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/plan/choose.h"

namespace echelon {

inline constexpr double kGigabit = 119.6e6;

inline constexpr ech_collective kCollectives[] = {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER,
                                                  ECH_BROADCAST, ECH_REDUCE};

// Ranks of each host, hosts of each rack, and what each host has of `speed` (1 where not said). An
// uplink has what the fastest two of its hosts have.
struct Machines {
  std::vector<int> ranks;
  std::vector<int> racks;
  std::vector<double> network = {};
  double speed = kGigabit;

  double host(std::size_t h) const { return speed * (h < network.size() ? network[h] : 1); }
};

inline void add_child(TierGroup& group, const std::vector<int>& ranks, double bandwidth) {
  std::vector<int> all = group.ranks.size() > 0 ? group.ranks.ranks() : std::vector<int>();
  all.insert(all.end(), ranks.begin(), ranks.end());
  group.ranks = Group(all);
  group.children.push_back(Group(ranks));
  group.child_bandwidth.push_back(bandwidth);
}

inline TierGroup network_group(double fastest) {
  TierGroup group;
  group.link = {LinkKind::kEthernet, 20e-6, fastest, Source::kMeasured};
  group.child_source = Source::kMeasured;
  return group;
}

// Tiers that would repeat the one below are left out, as in any layout.
inline Layout layout_of(const Machines& machines) {
  Layout layout;
  Tier host{TierKind::kHost, {}}, rack{TierKind::kRack, {}}, cluster{TierKind::kCluster, {}};
  double fastest = 0;
  for (std::size_t h = 0; h < machines.ranks.size(); ++h)
    fastest = std::max(fastest, machines.host(h));
  cluster.groups.push_back(network_group(fastest));
  const bool hosts = machines.racks.size() == 1;  // the cluster's children are hosts
  std::size_t h = 0;
  for (const int count : machines.racks) {
    TierGroup in_rack = network_group(fastest);
    for (int i = 0; i < count; ++i, ++h) {
      TierGroup in_host;
      in_host.link = {LinkKind::kShm, 0.3e-6, 10e9, Source::kDefault};
      for (int r = 0; r < machines.ranks[h]; ++r) {
        add_child(in_host, {layout.size++}, 0);
        layout.host_of_rank.push_back(static_cast<int>(h));
      }
      layout.host_names.push_back("host" + std::to_string(h));
      add_child(hosts ? cluster.groups[0] : in_rack, in_host.ranks.ranks(), machines.host(h));
      host.groups.push_back(in_host);
    }
    if (hosts) continue;
    add_child(cluster.groups[0], in_rack.ranks.ranks(), std::min(count, 2) * fastest);
    rack.groups.push_back(in_rack);
  }
  if (std::ranges::max(machines.ranks) > 1) layout.tiers.push_back(host);
  if (!hosts) layout.tiers.push_back(rack);
  if (machines.ranks.size() > 1) layout.tiers.push_back(cluster);
  EXPECT_EQ(validate(layout), "");
  return layout;
}

// hosts x ranks, all alike, `network` bytes/s out of each host.
inline Layout flat_cluster(int hosts, int ranks, double network) {
  return layout_of({std::vector<int>(hosts, ranks), {hosts}, {}, network});
}

}  // namespace echelon
