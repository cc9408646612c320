// SPDX-License-Identifier: Apache-2.0
#include "algorithms/tiers.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.h"

namespace echelon {

Tiers::Tiers(std::vector<std::vector<Group>> tiers, int size)
    : size_(size), groups_(std::move(tiers)) {
  if (size < 1) throw invalid(fmt::format("{} ranks: expected at least one", size));
  if (groups_.empty()) throw invalid("no tiers: expected at least one");
  for (int tier = 0; tier < count(); ++tier) add_tier(tier);
  if (groups(top()) != 1)
    throw invalid(
        fmt::format("tier {} has {} groups: the last tier must have one", top(), groups(top())));
}

void Tiers::add_tier(int tier) {
  group_of_.emplace_back(size_, -1);
  child_of_.emplace_back(size_, -1);
  children_.emplace_back(groups(tier));
  std::vector<int>& group_of = group_of_.back();
  for (int g = 0; g < groups(tier); ++g) {
    if (group(tier, g).size() == 0)
      throw invalid(fmt::format("tier {}: group {} is empty", tier, g));
    for (const int rank : group(tier, g).ranks()) {
      if (rank < 0 || rank >= size_)
        throw invalid(fmt::format("tier {}: rank {} is not in [0, {})", tier, rank, size_));
      if (group_of[rank] != -1)
        throw invalid(fmt::format("tier {}: rank {} is in it twice", tier, rank));
      group_of[rank] = g;
    }
  }
  if (const auto it = std::ranges::find(group_of, -1); it != group_of.end())
    throw invalid(fmt::format("tier {}: rank {} is in no group", tier, it - group_of.begin()));

  std::vector<int> seen(tier == 0 ? size_ : groups(tier - 1), -1);  // child -> its position
  for (int g = 0; g < groups(tier); ++g)
    for (const int rank : group(tier, g).ranks()) {
      const int child = this->group_of(tier - 1, rank);
      if (tier > 0 && group_of[group(tier - 1, child)[0]] != g)
        throw invalid(fmt::format("tier {}: group {} of tier {} is split", tier, child, tier - 1));
      if (seen[child] < 0) {
        seen[child] = static_cast<int>(children_[tier][g].size());
        children_[tier][g].push_back(child);
      }
      child_of_[tier][rank] = seen[child];
    }
}

}  // namespace echelon
