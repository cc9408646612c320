// SPDX-License-Identifier: Apache-2.0
#include "algorithms/division.h"

#include <algorithm>
#include <map>

namespace echelon {
namespace {

using Division = std::vector<Part>;

// Collects pieces by their owners. Keeps the rails in the order of their first piece.
class Rails {
 public:
  void add(const std::vector<int>& owners, Slice piece) {
    const auto [it, is_new] = index_.try_emplace(owners, rails_.size());
    if (is_new) rails_.push_back({Group(owners), {}});
    rails_[it->second].slices.push_back(piece);
  }
  std::vector<Rail> take() {
    for (Rail& rail : rails_) rail.slices = merged(std::move(rail.slices));
    return std::move(rails_);
  }

 private:
  std::map<std::vector<int>, std::size_t> index_;
  std::vector<Rail> rails_;
};

// Walks all divisions at once, from cut to cut.
std::vector<Rail> refine(const std::vector<const Division*>& children, Slice whole) {
  Rails rails;
  std::vector<std::size_t> at(children.size(), 0);
  std::vector<int> owners(children.size());
  for (Unit begin = whole.begin; begin < whole.end;) {
    Unit end = whole.end;
    for (std::size_t c = 0; c < children.size(); ++c) {
      const Part& part = (*children[c])[at[c]];
      owners[c] = part.owner;
      end = std::min(end, part.slice.end);
    }
    rails.add(owners, {begin, end});
    for (std::size_t c = 0; c < children.size(); ++c)
      if ((*children[c])[at[c]].slice.end == end) ++at[c];
    begin = end;
  }
  return rails.take();
}

}  // namespace

Divisions::Divisions(const Tiers& tiers, Slice whole, Ownership ownership, int leader)
    : tiers_(tiers), ownership_(ownership), leader_(leader) {
  std::vector<Division> below;
  for (int rank = 0; rank < tiers.size(); ++rank) below.push_back({{whole, rank}});
  for (int tier = 0; tier < tiers.count(); ++tier) {
    rails_.emplace_back();
    std::vector<Division> divisions;
    for (int g = 0; g < tiers.groups(tier); ++g) {
      std::vector<const Division*> children;
      for (const int child : tiers.children(tier, g)) children.push_back(&below[child]);
      rails_[tier].push_back(refine(children, whole));
      if (tier < tiers.top()) divisions.push_back(divide_group(tier, g));
    }
    below = std::move(divisions);
  }
}

int Divisions::leading_child(int tier, int group) const {
  const bool leads = leader_ != kNoLeader && tiers_.contains(tier, group, leader_);
  return leads ? tiers_.child_of(tier, leader_) : 0;
}

Shares Divisions::shares(int tier, int group, const Rail& rail) const {
  const int n = rail.owners.size();
  if (ownership_ == Ownership::kSplit) return divide(rail.slices, n);
  return all_to(leading_child(tier, group), rail.slices, n);
}

Divisions::Division Divisions::divide_group(int tier, int group) const {
  Division division;
  for (const Rail& rail : rails_[tier][group]) {
    const Shares parts = shares(tier, group, rail);
    for (int i = 0; i < rail.owners.size(); ++i)
      for (const Slice s : parts[i]) division.push_back({s, rail.owners[i]});
  }
  std::ranges::sort(division, {}, [](const Part& p) { return p.slice.begin; });
  return division;
}

}  // namespace echelon
