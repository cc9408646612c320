// SPDX-License-Identifier: Apache-2.0
// Compositions to test with.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "algorithms/hierarchical.h"
#include "lib/base/dtype.h"
#include "lib/base/join.h"

namespace echelon {

// A group's size and what it is made of: shape[i] are the ranks of host i.
using Hosts = std::vector<int>;

// Consecutive ranks: {3, 1, 2} gives 0-2, 3, 4-5.
inline std::vector<Group> hosts(const Hosts& sizes) {
  std::vector<Group> groups;
  int rank = 0;
  for (const int n : sizes) {
    std::vector<int> ranks;
    for (int i = 0; i < n; ++i) ranks.push_back(rank++);
    groups.push_back(Group(ranks));
  }
  return groups;
}

// Unions of consecutive groups: {2, 1} joins the first two, and the third stays alone.
inline std::vector<Group> join(const std::vector<Group>& below, const std::vector<int>& counts) {
  std::vector<Group> groups;
  std::size_t next = 0;
  for (const int count : counts) {
    std::vector<int> ranks;
    for (int i = 0; i < count; ++i, ++next)
      ranks.insert(ranks.end(), below[next].ranks().begin(), below[next].ranks().end());
    groups.push_back(Group(ranks));
  }
  return groups;
}

// counts[0]: ranks per host; counts[1]: hosts per rack; ... The last tier has one group.
inline std::vector<std::vector<Group>> tiers(const std::vector<std::vector<int>>& counts) {
  std::vector<std::vector<Group>> all = {hosts(counts[0])};
  for (std::size_t t = 1; t < counts.size(); ++t) all.push_back(join(all.back(), counts[t]));
  return all;
}

inline Composition composition(ech_collective collective,
                               const std::vector<std::vector<Group>>& tiers,
                               const std::vector<Algorithm>& algorithms) {
  Composition what;
  what.collective = collective;
  what.size = tiers.back()[0].size();
  for (std::size_t t = 0; t < tiers.size(); ++t) what.tiers.push_back({tiers[t], algorithms[t]});
  return what;
}

inline Composition flat(ech_collective collective, int n, Algorithm algorithm) {
  return composition(collective, {{Group::range(n)}}, {algorithm});
}

inline std::string text(const Composition& what) {
  std::string out = fmt::format("{} root {} {}", name(what.collective), what.root,
                                what.ownership == Ownership::kSplit ? "split" : "leader");
  for (const TierChoice& tier : what.tiers) {
    out += fmt::format(" | {}:", name(tier.algorithm));
    for (const Group& g : tier.groups) out += fmt::format(" ({})", joined(g.ranks(), ","));
  }
  return out;
}

}  // namespace echelon
