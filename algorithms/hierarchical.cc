// SPDX-License-Identifier: Apache-2.0
#include "algorithms/hierarchical.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <set>

#include "algorithms/blocks.h"
#include "algorithms/division.h"
#include "algorithms/tiers.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr Unit kMostUnits = Unit{1} << 40;

// One collective on all groups of one tier at once.
struct Stage {
  int tier;
  GroupAction action;
  bool rooted;                   // one owner per task: a broadcast or a reduce
  std::vector<GroupTask> tasks;  // those the viewer sees
  std::set<int> sizes;           // of all tasks
};

// What of the buffer a group's leaders move among themselves, and who of them owns it.
enum class Deal {
  kToEach,     // the group's own blocks, to the leader of each child those of the child
  kOwn,        // the group's own blocks, to its first leader
  kOthers,     // all other blocks, to its first leader
  kEverything  // to its first leader
};

GroupAction backwards(GroupAction action) {
  return action == GroupAction::kReduceScatter ? GroupAction::kAllgather
                                               : GroupAction::kReduceScatter;
}

// The same in reverse: what was spread is gathered in, and the other way round.
std::vector<Stage> mirrored(std::vector<Stage> stages) {
  std::ranges::reverse(stages);
  for (Stage& stage : stages) stage.action = backwards(stage.action);
  return stages;
}

class Composer {
 public:
  Composer(const Composition& what, int viewer)
      : what_(what), tiers_(groups_of(what), what.size), out_(units(), viewer) {}

  Schedule build() {
    for (const Stage& stage : stages()) add(stage);
    return std::move(out_);
  }

 private:
  static std::vector<std::vector<Group>> groups_of(const Composition& what);
  Unit units() const;
  Unit grain(int tier, int group) const;

  std::vector<Stage> stages() const;
  std::vector<Stage> allreduce() const;
  std::vector<Stage> scatter_blocks() const;
  std::vector<Stage> scatter_by_leaders() const;
  std::vector<Stage> gather_by_leaders() const;
  std::vector<Stage> reduce_to_leaders(int leader) const;
  std::vector<Stage> broadcast_split() const;

  bool sees(int tier, int group) const {
    return out_.viewer() == Schedule::kEveryone || tiers_.contains(tier, group, out_.viewer());
  }
  bool leads_root(int tier, int group) const { return tiers_.contains(tier, group, what_.root); }
  Slices blocks(int tier, int group, bool own) const;
  Group leaders_of_children(int tier, int group) const;
  Shares dealt(int tier, int group, Deal deal) const;
  Stage among_leaders(int tier, GroupAction action, Deal deal) const;
  void add_rails(Stage& stage, const Divisions& divisions, int group) const;
  void add(const Stage& stage);

  const Composition& what_;
  Tiers tiers_;
  Schedule out_;
  int step_ = 0;  // the next stage's first
};

std::vector<std::vector<Group>> Composer::groups_of(const Composition& what) {
  std::vector<std::vector<Group>> tiers;
  for (const TierChoice& tier : what.tiers) tiers.push_back(tier.groups);
  return tiers;
}

// A number by which a group's rails must be divisible so that its shares are whole units.
Unit Composer::grain(int tier, int group) const {
  const auto n = static_cast<Unit>(tiers_.children(tier, group).size());
  switch (what_.tiers[tier].algorithm) {
    case Algorithm::kHalvingDoubling:
      return std::lcm(n, std::bit_floor(n));
    case Algorithm::kDoubleTree:
      return 2 * n;
    default:
      return n;
  }
}

// Exact where it can be; beyond kMostUnits parts are equal but for one unit in that many.
Unit Composer::units() const {
  const auto size = static_cast<Unit>(what_.size);
  if (what_.collective == ECH_REDUCE_SCATTER || what_.collective == ECH_ALLGATHER) return size;
  Unit units = 1;
  for (int tier = 0; tier < tiers_.count(); ++tier) {
    Unit parts = 1;
    for (int g = 0; g < tiers_.groups(tier) && parts <= kMostUnits; ++g)
      parts = std::lcm(parts, grain(tier, g));
    if (parts > kMostUnits / units) return kMostUnits;
    units *= parts;
  }
  return units;
}

std::vector<Stage> Composer::stages() const {
  const bool leader = what_.ownership == Ownership::kLeader;
  switch (what_.collective) {
    case ECH_ALLREDUCE:
      return allreduce();
    case ECH_REDUCE_SCATTER:
      return leader ? scatter_by_leaders() : scatter_blocks();
    case ECH_ALLGATHER:
      return leader ? gather_by_leaders() : mirrored(scatter_blocks());
    case ECH_BROADCAST:
    case ECH_REDUCE: {
      const bool reduce = what_.collective == ECH_REDUCE;
      if (leader)
        return reduce ? reduce_to_leaders(what_.root) : mirrored(reduce_to_leaders(what_.root));
      return reduce ? mirrored(broadcast_split()) : broadcast_split();
    }
    default:
      throw invalid("compose: a barrier has no schedule");
  }
}

// Adds what the rails of one group do, each dividing its pieces as `divisions` says.
void Composer::add_rails(Stage& stage, const Divisions& divisions, int group) const {
  stage.sizes.insert(static_cast<int>(tiers_.children(stage.tier, group).size()));
  if (!sees(stage.tier, group)) return;
  for (const Rail& rail : divisions.rails(stage.tier, group)) {
    const bool seen = out_.viewer() == Schedule::kEveryone ||
                      rail.owners[tiers_.child_of(stage.tier, out_.viewer())] == out_.viewer();
    if (seen) stage.tasks.push_back({rail.owners, divisions.shares(stage.tier, group, rail)});
  }
}

// reduce_scatter inwards to outwards, allreduce at the top, allgather back.
std::vector<Stage> Composer::allreduce() const {
  const bool leader = what_.ownership == Ownership::kLeader;
  const Divisions divisions(tiers_, out_.whole(), what_.ownership, Divisions::kNoLeader);
  std::vector<Stage> up;
  for (int tier = 0; tier < tiers_.top(); ++tier) {
    up.push_back({tier, GroupAction::kReduceScatter, leader, {}, {}});
    for (int g = 0; g < tiers_.groups(tier); ++g) add_rails(up.back(), divisions, g);
  }
  const std::vector<Stage> down = mirrored(up);
  Stage top{tiers_.top(), GroupAction::kAllreduce, false, {}, {}};
  add_rails(top, divisions, 0);
  for (GroupTask& task : top.tasks) task.shares = divide(united(task.shares), task.group.size());
  up.push_back(std::move(top));
  up.insert(up.end(), down.begin(), down.end());
  return up;
}

std::vector<Stage> Composer::scatter_blocks() const {
  const Blocks blocks(tiers_, out_.whole());
  std::vector<Stage> up;
  for (int tier = 0; tier < tiers_.count(); ++tier) {
    Stage stage{tier, GroupAction::kReduceScatter, false, {}, {}};
    for (int g = 0; g < tiers_.groups(tier); ++g) {
      stage.sizes.insert(static_cast<int>(tiers_.children(tier, g).size()));
      if (!sees(tier, g)) continue;
      for (GroupTask& task : blocks.tasks(tier, g, out_.viewer()))
        stage.tasks.push_back(std::move(task));
    }
    up.push_back(std::move(stage));
  }
  return up;
}

// Of the ranks of a group, or of all others. A group of tier -1 is a rank.
Slices Composer::blocks(int tier, int group, bool own) const {
  Slices slices;
  for (int r = 0; r < tiers_.size(); ++r)
    if (tiers_.contains(tier, group, r) == own)
      slices.push_back(out_.whole().part(r, tiers_.size()));
  return merged(std::move(slices));
}

Group Composer::leaders_of_children(int tier, int group) const {
  std::vector<int> leaders = tiers_.children(tier, group);
  while (--tier >= 0)
    for (int& leader : leaders) leader = tiers_.children(tier, leader)[0];
  return Group(std::move(leaders));
}

Shares Composer::dealt(int tier, int group, Deal deal) const {
  const std::vector<int>& children = tiers_.children(tier, group);
  if (deal == Deal::kToEach) {
    Shares shares;
    for (const int child : children) shares.push_back(blocks(tier - 1, child, true));
    return shares;
  }
  const Slices slices =
      deal == Deal::kEverything ? Slices{out_.whole()} : blocks(tier, group, deal == Deal::kOwn);
  return all_to(0, slices, static_cast<int>(children.size()));
}

// In every group of the tier, among the leaders of its children.
Stage Composer::among_leaders(int tier, GroupAction action, Deal deal) const {
  Stage stage{tier, action, deal != Deal::kToEach, {}, {}};
  for (int g = 0; g < tiers_.groups(tier); ++g) {
    stage.sizes.insert(static_cast<int>(tiers_.children(tier, g).size()));
    if (!sees(tier, g)) continue;
    const Group leaders = leaders_of_children(tier, g);
    const bool seen = out_.viewer() == Schedule::kEveryone ||
                      leaders[tiers_.child_of(tier, out_.viewer())] == out_.viewer();
    if (seen) stage.tasks.push_back({leaders, dealt(tier, g, deal)});
  }
  return stage;
}

std::vector<Stage> Composer::scatter_by_leaders() const {
  std::vector<Stage> stages;
  const int top = tiers_.top();
  for (int tier = 0; tier < top; ++tier)
    stages.push_back(among_leaders(tier, GroupAction::kReduceScatter, Deal::kEverything));
  stages.push_back(among_leaders(top, GroupAction::kReduceScatter, Deal::kToEach));
  for (int tier = top - 1; tier >= 0; --tier)
    stages.push_back(among_leaders(tier, GroupAction::kAllgather, Deal::kOwn));
  return stages;
}

std::vector<Stage> Composer::gather_by_leaders() const {
  std::vector<Stage> stages;
  const int top = tiers_.top();
  for (int tier = 0; tier <= top; ++tier)
    stages.push_back(among_leaders(tier, GroupAction::kAllgather, Deal::kToEach));
  for (int tier = top - 1; tier >= 0; --tier)
    stages.push_back(among_leaders(tier, GroupAction::kAllgather, Deal::kOthers));
  return stages;
}

std::vector<Stage> Composer::reduce_to_leaders(int leader) const {
  const Divisions divisions(tiers_, out_.whole(), Ownership::kLeader, leader);
  std::vector<Stage> up;
  for (int tier = 0; tier < tiers_.count(); ++tier) {
    up.push_back({tier, GroupAction::kReduceScatter, true, {}, {}});
    for (int g = 0; g < tiers_.groups(tier); ++g) add_rails(up.back(), divisions, g);
  }
  return up;
}

// From the root to all of its group of tier 0; then each of these sends its piece along its rail
// through the root's group of tier 1, and so on. After the last tier each group that the root is
// not in holds the buffer divided, and allgathers it. The root's groups have it already.
std::vector<Stage> Composer::broadcast_split() const {
  const Divisions divisions(tiers_, out_.whole(), Ownership::kSplit, Divisions::kNoLeader);
  std::vector<Stage> stages;
  for (int tier = 0; tier < tiers_.count(); ++tier) {
    Stage stage{tier, GroupAction::kAllgather, true, {}, {}};
    add_rails(stage, divisions, tiers_.group_of(tier, what_.root));
    for (GroupTask& task : stage.tasks)
      task.shares =
          all_to(tiers_.child_of(tier, what_.root), united(task.shares), task.group.size());
    stages.push_back(std::move(stage));
  }
  for (int tier = tiers_.top() - 1; tier >= 0; --tier) {
    Stage stage{tier, GroupAction::kAllgather, false, {}, {}};
    for (int g = 0; g < tiers_.groups(tier); ++g)
      if (!leads_root(tier, g)) add_rails(stage, divisions, g);
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::string_view verb(const Stage& stage) {
  if (!stage.rooted) return name(stage.action);
  return stage.action == GroupAction::kReduceScatter ? "reduce" : "broadcast";
}

int checked_rounds(const Stage& stage, Algorithm algorithm, int n) {
  if (algorithm == Algorithm::kNative && stage.tier > 0)
    throw invalid(fmt::format("tier {}: native works on tier 0 only", stage.tier));
  if (!supports(algorithm, stage.action))
    throw invalid(
        fmt::format("tier {}: {} cannot do {}", stage.tier, name(algorithm), name(stage.action)));
  return cost(algorithm, stage.action, n).rounds;
}

void Composer::add(const Stage& stage) {
  const auto& [groups, algorithm, given] = what_.tiers[stage.tier];
  int rounds = 0;
  for (const int n : stage.sizes)
    if (n > 1) rounds = std::max(rounds, checked_rounds(stage, algorithm, n));
  if (rounds == 0) return;
  for (const GroupTask& task : stage.tasks)
    add_collective(out_, step_, algorithm, stage.action, task.group, task.shares);
  const std::string where = given.empty() ? fmt::format("tier {}", stage.tier) : given;
  out_.add(Phase{fmt::format("{}({}) by {}", verb(stage), where, name(algorithm)), stage.tier,
                 step_, step_ + rounds, where});
  step_ += rounds;
}

}  // namespace

Schedule compose(const Composition& what, int viewer) {
  if (what.root < 0 || what.root >= what.size)
    throw invalid(fmt::format("root {} is not in [0, {})", what.root, what.size));
  return Composer(what, viewer).build();
}

}  // namespace echelon
