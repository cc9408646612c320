// SPDX-License-Identifier: Apache-2.0
// The groups of all tiers as a tree: every group knows its children, the groups of the tier below
// (single ranks below tier 0). Immutable.
#pragma once

#include <vector>

#include "lib/schedule/schedule.h"

namespace echelon {

class Tiers {
 public:
  // tiers[t]: disjoint groups that cover 0..size-1, each a union of groups of tier t-1; the last
  // tier has one. Throws ECH_ERR_INVALID otherwise.
  Tiers(std::vector<std::vector<Group>> tiers, int size);

  int size() const { return size_; }                              // ranks
  int count() const { return static_cast<int>(groups_.size()); }  // tiers
  int top() const { return count() - 1; }
  int groups(int tier) const { return static_cast<int>(groups_[tier].size()); }
  const Group& group(int tier, int index) const { return groups_[tier][index]; }

  // Index of the tier's group that `rank` is in. Tier -1: the rank itself.
  int group_of(int tier, int rank) const { return tier < 0 ? rank : group_of_[tier][rank]; }
  bool contains(int tier, int index, int rank) const { return group_of(tier, rank) == index; }

  // Indices of the groups of tier-1 that the group consists of, in the order of its ranks.
  const std::vector<int>& children(int tier, int index) const { return children_[tier][index]; }

  // Position of the rank's group of tier-1 among the children of its group of `tier`.
  int child_of(int tier, int rank) const { return child_of_[tier][rank]; }

 private:
  void add_tier(int tier);

  int size_;
  std::vector<std::vector<Group>> groups_;
  std::vector<std::vector<int>> group_of_;               // [tier][rank]
  std::vector<std::vector<std::vector<int>>> children_;  // [tier][group]
  std::vector<std::vector<int>> child_of_;               // [tier][rank]
};

}  // namespace echelon
