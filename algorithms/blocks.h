// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter over tiers: block r ends at rank r. On the way, a group that does not contain
// rank r keeps block r at a delegate: the member that speaks for r to the next tier. Delegates are
// chosen so that every member of a group has nearly as many blocks, and so that between equal
// groups blocks travel on straight rails: from the same place to the same place.
#pragma once

#include <vector>

#include "algorithms/shares.h"
#include "algorithms/tiers.h"

namespace echelon {

// A reduce-scatter (or, backwards in time, an allgather) on one group of ranks.
struct GroupTask {
  Group group;
  Shares shares;
};

class Blocks {
 public:
  Blocks(const Tiers& tiers, Slice whole);

  // What the children of a group have to do with each other, as far as `viewer` sees it.
  std::vector<GroupTask> tasks(int tier, int group, int viewer) const;

  // Who has block r of the group after the reduce-scatter of its tier.
  int delegate(int tier, int group, int r) const;

 private:
  int child(int tier, int group, int r) const;
  Slice block(int r) const { return whole_.part(r, tiers_.size()); }
  GroupTask innermost(int group) const;
  std::vector<GroupTask> rails(int tier, int group, int viewer) const;

  const Tiers& tiers_;
  Slice whole_;
  // For every tier, all ranks ordered by their child's relative place in its group (first
  // children first), and where each group's own ranks are in this order.
  std::vector<std::vector<int>> place_;                 // [tier][rank]
  std::vector<std::vector<std::vector<int>>> members_;  // [tier][group]: their places, ascending
};

}  // namespace echelon
