// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

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
  return child_speed(group, child, group.children[child].size());
}

// The group as if nothing lay between its ranks and it.
TierGroup of_single_ranks(TierGroup group) {
  group.children.clear();
  for (int rank : group.ranks.ranks()) group.children.push_back(Group({rank}));
  group.child_bandwidth.clear();
  return group;
}

// The blocks that the children of a group own among those of all `size` ranks.
void add_blocks(const TierGroup& group, int size, bool in_host, TierShape& shape) {
  const double children = static_cast<double>(group.children.size());
  const double others = 1 - static_cast<double>(group.ranks.size()) / size;
  shape.least_kept = 1;
  shape.most_kept = shape.block_time = shape.largest_part = 0;
  for (std::size_t c = 0; c < group.children.size(); ++c) {
    const double own = static_cast<double>(group.children[c].size()) / size;
    const double foreign = 1 - own - (in_host ? others : 0);  // those leave by another link
    shape.least_kept = std::min(shape.least_kept, own + others / children);
    shape.most_kept = std::max(shape.most_kept, own + others / children);
    shape.largest_part = std::max(shape.largest_part, own / (1 - others));
    shape.block_time = std::max(shape.block_time, std::max(own, foreign) / bandwidth_of(group, c));
  }
}

double slowest_of(const TierGroup& group) {
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < group.children.size(); ++c)
    slowest = std::min(slowest, bandwidth_of(group, c));
  return slowest;
}

// Rails that the busiest rank serves where every child divides the buffer evenly among its ranks:
// the parts between all cuts k/n (algorithms/division.h), dealt out to the ranks of the smallest.
int rails_of_busiest(const std::vector<Group>& children) {
  std::set<int> sizes;
  for (const Group& child : children) sizes.insert(child.size());
  std::set<std::pair<int, int>> cuts;
  for (const int n : sizes)
    for (int k = 0; k < n; ++k) cuts.insert({k / std::gcd(k, n), n / std::gcd(k, n)});
  const int rails = static_cast<int>(cuts.size()), smallest = *sizes.begin();
  return (rails + smallest - 1) / smallest;
}

void add_sharers(const TierGroup& group, TierShape& shape) {
  shape.sharing += static_cast<int>(group.children.size());
  for (std::size_t c = 0; c < group.children.size(); ++c)
    shape.all_children += bandwidth_of(group, c);
}

TierShape tier_shape(const Tier& tier, int size) {
  const bool in_host = is_served_as_one(tier.kind);
  TierShape shape;
  shape.kind = tier.kind;
  shape.sharing = 0;
  std::vector<TierGroup> groups;
  for (const TierGroup& given : tier.groups)
    groups.push_back(in_host ? of_single_ranks(given) : given);
  const TierGroup* worst = nullptr;
  double highest = -1;
  for (const TierGroup& group : groups) {
    shape.groups.push_back(group.ranks);
    if (!in_host) add_sharers(group, shape);
    if (group.children.size() < 2) continue;
    shape.most_children = std::max(shape.most_children, static_cast<int>(group.children.size()));
    const double cost = static_cast<double>(group.children.size()) / slowest_of(group);
    if (cost > highest) worst = &group;
    highest = std::max(highest, cost);
  }
  shape.children = static_cast<int>(worst->children.size());
  shape.rails = std::ranges::min(worst->children, {}, &Group::size).size();
  shape.rails_of_rank = rails_of_busiest(worst->children);
  shape.link = for_users(worst->link);
  shape.slowest_child = slowest_of(*worst);
  if (worst->one_nic > 0)
    shape.one_nic = worst->one_nic * payload(worst->link.kind, worst->child_source);
  shape.child_source = worst->child_source;
  shape.crossing = crossing_edges(*worst);
  add_blocks(*worst, size, in_host, shape);
  if (in_host) add_sharers(*worst, shape);
  return shape;
}

// The narrowest of the networks that it crosses.
void find_way_of_joint_call(Shape& shape) {
  Link& call = *shape.joint_call;
  call.bytes_per_second = std::numeric_limits<double>::infinity();
  for (const TierShape& tier : shape.tiers) {
    if (is_served_as_one(tier.kind) || tier.slowest_child >= call.bytes_per_second) continue;
    call.kind = tier.link.kind;
    call.bytes_per_second = tier.slowest_child;
    const bool by_streams = tier.slowest_child >= tier.link.bytes_per_second * tier.rails;
    call.source = by_streams ? tier.link.source : tier.child_source;
  }
}

}  // namespace

double child_speed(const TierGroup& group, std::size_t child, int streams) {
  const double all = for_users(group.link).bytes_per_second * streams;
  if (child >= group.child_bandwidth.size() || group.child_bandwidth[child] <= 0) return all;
  return std::min(all, group.child_bandwidth[child] * payload(group.link.kind, group.child_source));
}

void set_child_speed(TierGroup& group, std::size_t child, double speed) {
  const double share = payload(group.link.kind, group.child_source);
  group.child_bandwidth.resize(group.children.size());
  for (double& bandwidth : group.child_bandwidth) bandwidth *= share;  // one source for all
  group.child_bandwidth[child] = speed;
  group.child_source = Source::kMeasured;
}

Shape make_shape(const Layout& layout, bool native) {
  Shape shape;
  shape.size = layout.size;
  shape.staging = layout.staging;
  shape.cpus_per_rank = layout.cpus_per_rank;
  for (const Tier& tier : layout.tiers)
    if (tier.kind != TierKind::kSocket) shape.tiers.push_back(tier_shape(tier, layout.size));
  shape.native = native && !shape.tiers.empty() && is_served_as_one(shape.tiers[0].kind);
  shape.joint_call = layout.joint_call;
  shape.no_joint_call = layout.no_joint_call;
  if (shape.joint_call) find_way_of_joint_call(shape);
  return shape;
}

}  // namespace echelon
