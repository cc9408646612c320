// SPDX-License-Identifier: Apache-2.0
// How the groups of every tier divide the buffer among their ranks, and the rails this makes.
//
// A division of a group is a list of parts that covers the buffer, each with one owner in the
// group. The parts of a group's children cut the buffer into pieces (their common refinement);
// every piece has one owner per child. Pieces with the same owners form a rail: what happens to
// them between the children is one collective on these owners. The group's own division then is
// how its rails divide their pieces among their members. A single rank's division is itself.
//
// With unequal groups, 3+1+2 ranks, each row a division, and four rails:
//   |   0   |   1   |   2   |
//   |           3           |
//   |     4     |     5     |
//     034   134 135   235
#pragma once

#include <vector>

#include "algorithms/hierarchical.h"
#include "algorithms/shares.h"
#include "algorithms/tiers.h"

namespace echelon {

struct Rail {
  Group owners;  // owners[i]: of the group's child i
  Slices slices;
};

class Divisions {
 public:
  static constexpr int kNoLeader = -1;

  // kLeader: all of a group's buffer belongs to `leader` when it is a member, else to the first.
  Divisions(const Tiers& tiers, Slice whole, Ownership ownership, int leader);

  const std::vector<Rail>& rails(int tier, int group) const { return rails_[tier][group]; }

  // How the rail divides its pieces among its owners.
  Shares shares(int tier, int group, const Rail& rail) const;

 private:
  using Division = std::vector<Part>;  // ordered by slice

  int leading_child(int tier, int group) const;
  Division divide_group(int tier, int group) const;

  const Tiers& tiers_;
  Ownership ownership_;
  int leader_;
  std::vector<std::vector<std::vector<Rail>>> rails_;  // [tier][group]
};

}  // namespace echelon
