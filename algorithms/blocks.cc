// SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace echelon {
namespace {

// All ranks by (2 i + 1) / (2 n), where i of n is their child's place in its group; then by rank.
std::vector<int> in_order(const Tiers& tiers, int tier) {
  const auto children = [&](int rank) {
    return static_cast<std::int64_t>(tiers.children(tier, tiers.group_of(tier, rank)).size());
  };
  std::vector<int> ranks = Group::range(tiers.size()).ranks();
  std::ranges::stable_sort(ranks, [&](int a, int b) {
    return (2 * tiers.child_of(tier, a) + 1) * children(b) <
           (2 * tiers.child_of(tier, b) + 1) * children(a);
  });
  return ranks;
}

}  // namespace

Blocks::Blocks(const Tiers& tiers, Slice whole) : tiers_(tiers), whole_(whole) {
  for (int tier = 0; tier < tiers.count(); ++tier) {
    const std::vector<int> order = in_order(tiers, tier);
    place_.emplace_back(tiers.size());
    members_.emplace_back(tiers.groups(tier));
    for (int place = 0; place < tiers.size(); ++place) {
      place_[tier][order[place]] = place;
      members_[tier][tiers.group_of(tier, order[place])].push_back(place);
    }
  }
}

// Which child of the group has block r after the tier's reduce-scatter: the one that contains r.
// Blocks of other groups are dealt to the children in order, as many to each.
int Blocks::child(int tier, int group, int r) const {
  if (tiers_.contains(tier, group, r)) return tiers_.child_of(tier, r);
  const std::vector<int>& own = members_[tier][group];
  const int place = place_[tier][r];
  const auto before = std::ranges::lower_bound(own, place) - own.begin();
  const auto foreign = static_cast<std::int64_t>(place_[tier].size() - own.size());
  const auto children = static_cast<std::int64_t>(tiers_.children(tier, group).size());
  return static_cast<int>((place - before) * children / foreign);
}

int Blocks::delegate(int tier, int group, int r) const {
  for (; tier >= 0; --tier) group = tiers_.children(tier, group)[child(tier, group, r)];
  return group;  // a group of tier -1 is a rank
}

// Below tier 0 every rank has its own copy of every block: all of the group's ranks are one rail.
GroupTask Blocks::innermost(int group) const {
  const Group& ranks = tiers_.group(0, group);
  Shares shares(ranks.size());
  for (int r = 0; r < tiers_.size(); ++r) shares[child(0, group, r)].push_back(block(r));
  return {ranks, std::move(shares)};
}

std::vector<GroupTask> Blocks::rails(int tier, int group, int viewer) const {
  const std::vector<int>& children = tiers_.children(tier, group);
  const int n = static_cast<int>(children.size());
  std::map<std::vector<int>, Shares> by_owners;
  std::vector<int> owners(n);
  for (int r = 0; r < tiers_.size(); ++r) {
    const bool seen = viewer == Schedule::kEveryone ||
                      delegate(tier - 1, tiers_.group_of(tier - 1, viewer), r) == viewer;
    if (!seen) continue;
    for (int c = 0; c < n; ++c) owners[c] = delegate(tier - 1, children[c], r);
    Shares& shares = by_owners.try_emplace(owners, n).first->second;
    shares[child(tier, group, r)].push_back(block(r));
  }
  std::vector<GroupTask> tasks;
  for (auto& [ranks, shares] : by_owners) tasks.push_back({Group(ranks), std::move(shares)});
  return tasks;
}

std::vector<GroupTask> Blocks::tasks(int tier, int group, int viewer) const {
  std::vector<GroupTask> tasks =
      tier == 0 ? std::vector<GroupTask>{innermost(group)} : rails(tier, group, viewer);
  for (GroupTask& task : tasks)
    for (Slices& slices : task.shares) slices = merged(std::move(slices));
  return tasks;
}

}  // namespace echelon
