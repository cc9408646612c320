// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "lib/plan/model.h"

namespace echelon {
namespace {

// Edges i -> i+1 of the ring over all ranks that leave each child, at most.
int crossing_edges(const TierGroup& group) {
  std::unordered_map<int, std::size_t> child_of;
  for (std::size_t c = 0; c < group.children.size(); ++c)
    for (int rank : group.children[c].ranks()) child_of[rank] = c;
  std::vector<int> crossing(group.children.size(), 0);
  for (int i = 0; i < group.ranks.size(); ++i) {
    const std::size_t from = child_of[group.ranks[i]];
    if (from != child_of[group.ranks[i + 1]]) ++crossing[from];
  }
  return std::ranges::max(crossing);
}

// Of the bytes on an Ethernet wire, those that TCP's users see: 1448 of 1514 with the usual frames
// and time stamps. What was measured was measured by a user.
double payload(LinkKind kind, Source source) {
  return kind == LinkKind::kEthernet && source != Source::kMeasured ? 1448.0 / 1514.0 : 1.0;
}

Link for_users(Link link) {
  link.bytes_per_second *= payload(link.kind, link.source);
  return link;
}

double bandwidth_of(const TierGroup& group, std::size_t child) {
  const double streams = for_users(group.link).bytes_per_second * group.children[child].size();
  if (child >= group.child_bandwidth.size() || group.child_bandwidth[child] <= 0) return streams;
  return std::min(streams,
                  group.child_bandwidth[child] * payload(group.link.kind, group.child_source));
}

// The group as if nothing lay between its ranks and it.
TierGroup of_single_ranks(TierGroup group) {
  group.children.clear();
  for (int rank : group.ranks.ranks()) group.children.push_back(Group({rank}));
  group.child_bandwidth.clear();
  return group;
}

TierShape tier_shape(const Tier& tier, bool lowest) {
  TierShape shape;
  shape.kind = tier.kind;
  shape.children = 0;
  double worst = -1;
  for (const TierGroup& given : tier.groups) {
    const TierGroup group = lowest ? of_single_ranks(given) : given;
    shape.groups.push_back(group.ranks);
    double slowest = std::numeric_limits<double>::infinity();
    double sum = 0;
    int rails = std::numeric_limits<int>::max();
    for (std::size_t c = 0; c < group.children.size(); ++c) {
      slowest = std::min(slowest, bandwidth_of(group, c));
      sum += bandwidth_of(group, c);
      rails = std::min(rails, group.children[c].size());
    }
    const double cost = static_cast<double>(group.children.size()) / slowest;
    if (group.children.size() < 2 || cost <= worst) continue;
    worst = cost;
    shape.children = static_cast<int>(group.children.size());
    shape.rails = rails;
    shape.link = for_users(group.link);
    shape.slowest_child = slowest;
    shape.all_children = sum;
    shape.crossing = crossing_edges(group);
  }
  return shape;
}

}  // namespace

Shape make_shape(const Layout& layout, bool native) {
  Shape shape;
  shape.size = layout.size;
  for (const Tier& tier : layout.tiers)
    if (tier.kind != TierKind::kSocket)
      shape.tiers.push_back(tier_shape(tier, tier.kind == TierKind::kHost));
  shape.native = native && !shape.tiers.empty() && shape.tiers[0].kind == TierKind::kHost;
  return shape;
}

}  // namespace echelon
