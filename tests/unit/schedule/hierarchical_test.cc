// SPDX-License-Identifier: Apache-2.0
#include "algorithms/hierarchical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "lib/base/error.h"
#include "lib/schedule/verify.h"
#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

using Counts = std::vector<std::vector<int>>;

// Ranks per host; hosts per rack; ...
const Counts kShapes[] = {
    {{2, 2}, {2}},
    {{2, 2, 2, 2}, {4}},
    {{3, 1, 2}, {3}},
    {{1, 1, 5}, {3}},
    {{1, 1, 1}, {3}},
    {{4}, {1}},
    {{2, 2, 2, 2}, {2, 2}, {2}},
    {{3, 1, 2}, {2, 1}, {2}},
    {{1, 2, 3, 4}, {1, 3}, {2}},
    {{2, 1, 2, 2, 3}, {2, 2, 1}, {2, 1}, {2}},
};

// All collectives with both ownerships and several roots.
void expect_correct(Composition what) {
  for (const ech_collective collective :
       {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE}) {
    what.collective = collective;
    for (const Ownership ownership : {Ownership::kSplit, Ownership::kLeader}) {
      what.ownership = ownership;
      const bool rooted = collective == ECH_BROADCAST || collective == ECH_REDUCE;
      for (int root = 0; root < (rooted ? what.size : 1); root += 2) {
        what.root = root;
        EXPECT_EQ(verify(compose(what), collective, what.size, root), "") << text(what);
      }
    }
  }
}

constexpr Algorithm kGeneral[] = {Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kDirect,
                                  Algorithm::kBinomial};

TEST(Compose, AllShapesWithAllAlgorithmsPerTier) {
  for (const Counts& shape : kShapes)
    for (const Algorithm inner : {Algorithm::kNative, Algorithm::kRing, Algorithm::kDirect})
      for (const Algorithm outer : kGeneral) {
        std::vector<Algorithm> algorithms(shape.size(), outer);
        algorithms[0] = inner;
        expect_correct(composition(ECH_ALLREDUCE, tiers(shape), algorithms));
      }
}

TEST(Compose, AllreduceOnlyAlgorithmsOnTheLastTier) {
  for (const Counts& shape : kShapes)
    for (const Algorithm top :
         {Algorithm::kRecursiveDoubling, Algorithm::kDoubleTree, Algorithm::kOneShot}) {
      std::vector<Algorithm> algorithms(shape.size(), Algorithm::kRing);
      algorithms.back() = top;
      Composition what = composition(ECH_ALLREDUCE, tiers(shape), algorithms);
      for (const Ownership ownership : {Ownership::kSplit, Ownership::kLeader}) {
        what.ownership = ownership;
        EXPECT_EQ(verify(compose(what), ECH_ALLREDUCE, what.size), "") << text(what);
      }
    }
}

// Random trees of three tiers whose ranks are anywhere.
TEST(Compose, RandomShapesInRandomOrder) {
  std::mt19937 random(20);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 40; ++round) {
    Counts shape(3);
    const int racks = pick(1, 3);
    for (int r = 0; r < racks; ++r) shape[1].push_back(pick(1, 3));
    for (const int h : shape[1])
      for (int i = 0; i < h; ++i) shape[0].push_back(pick(1, 4));
    shape[2] = {racks};
    std::vector<std::vector<Group>> groups = tiers(shape);
    std::vector<int> names = Group::range(groups.back()[0].size()).ranks();
    std::shuffle(names.begin(), names.end(), random);
    for (std::vector<Group>& tier : groups) {
      for (Group& g : tier) {
        std::vector<int> ranks;
        for (const int rank : g.ranks()) ranks.push_back(names[rank]);
        std::shuffle(ranks.begin(), ranks.end(), random);
        g = Group(ranks);
      }
      std::shuffle(tier.begin(), tier.end(), random);
    }
    expect_correct(composition(ECH_ALLREDUCE, groups,
                               {round % 2 == 0 ? Algorithm::kNative : kGeneral[pick(0, 3)],
                                kGeneral[pick(0, 3)], kGeneral[pick(0, 3)]}));
  }
}

using Key = std::tuple<int, int, int, Unit, Unit, Action>;

std::vector<Key> keys(const Schedule& s) {
  std::vector<Key> out;
  for (const Transfer& t : s.transfers())
    out.emplace_back(t.step, t.from, t.to, t.slice.begin, t.slice.end, t.action);
  return out;
}

void expect_views_agree(const Composition& what) {
  const Schedule all = compose(what);
  for (int viewer = 0; viewer < what.size; ++viewer) {
    Schedule expected(all.units(), viewer);
    for (const Transfer& t : all.transfers()) expected.add(t);
    for (const GroupCall& call : all.calls()) expected.add(call);
    const Schedule seen = compose(what, viewer);
    EXPECT_EQ(keys(seen), keys(expected)) << text(what) << " viewer " << viewer;
    EXPECT_EQ(seen.phases().size(), all.phases().size());
    EXPECT_EQ(seen.units(), all.units());
    ASSERT_EQ(seen.calls().size(), expected.calls().size());
    for (std::size_t i = 0; i < seen.calls().size(); ++i) {
      EXPECT_EQ(seen.calls()[i].step, expected.calls()[i].step);
      EXPECT_EQ(seen.calls()[i].group, expected.calls()[i].group);
      EXPECT_EQ(seen.calls()[i].parts, expected.calls()[i].parts);
    }
  }
}

// A rank's view is what everybody's schedule says about that rank, in the same order, so that both
// ends of a pair see their messages of a step in the same order.
TEST(Compose, ViewerSeesExactlyItsPart) {
  for (const Counts& shape : kShapes)
    for (const ech_collective collective :
         {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE})
      for (const Algorithm outer : kGeneral) {
        std::vector<Algorithm> algorithms(shape.size(), outer);
        algorithms[0] = Algorithm::kNative;
        expect_views_agree(composition(collective, tiers(shape), algorithms));
      }
  for (const Algorithm algorithm : kAllAlgorithms)
    for (const int n : {2, 5, 8}) expect_views_agree(flat(ECH_ALLREDUCE, n, algorithm));
}

TEST(Compose, PhasesFollowEachOtherAndSayWhatTheyDo) {
  const Schedule s = compose(
      composition(ECH_ALLREDUCE, tiers({{2, 2}, {2}}), {Algorithm::kNative, Algorithm::kRing}));
  std::vector<std::string> names;
  int end = 0;
  for (const Phase& phase : s.phases()) {
    names.push_back(phase.name);
    EXPECT_EQ(phase.begin, end);
    end = phase.end;
  }
  EXPECT_EQ(end, s.steps());
  EXPECT_EQ(names,
            (std::vector<std::string>{"reduce_scatter(tier 0) by native",
                                      "allreduce(tier 1) by ring", "allgather(tier 0) by native"}));
}

std::string error_of(const Composition& what) {
  try {
    compose(what);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "";
}

TEST(Compose, RefusesWhatCannotBe) {
  EXPECT_EQ(error_of(composition(ECH_ALLREDUCE, tiers({{2, 2}, {2}}),
                                 {Algorithm::kRing, Algorithm::kNative})),
            "tier 1: native works on tier 0 only");
  EXPECT_EQ(error_of(flat(ECH_REDUCE, 4, Algorithm::kDoubleTree)),
            "tier 0: double_tree cannot do reduce_scatter");
  EXPECT_EQ(error_of(flat(ECH_BARRIER, 4, Algorithm::kRing)), "compose: a barrier has no schedule");
  Composition what = flat(ECH_BROADCAST, 4, Algorithm::kRing);
  what.root = 4;
  EXPECT_EQ(error_of(what), "root 4 is not in [0, 4)");
  what = flat(ECH_BROADCAST, 4, Algorithm::kRing);
  what.tiers.clear();
  EXPECT_EQ(error_of(what), "no tiers: expected at least one");
}

TEST(Compose, RefusesTiersThatAreNotATree) {
  const auto error = [](const std::vector<std::vector<Group>>& groups) {
    Composition what;
    what.size = 3;
    for (const std::vector<Group>& tier : groups) what.tiers.push_back({tier, Algorithm::kRing});
    return error_of(what);
  };
  const std::vector<Group> pair = {Group({0, 1}), Group({2})}, all = {Group({0, 1, 2})};
  EXPECT_EQ(error({pair, all}), "");
  EXPECT_EQ(error({pair}), "tier 0 has 2 groups: the last tier must have one");
  EXPECT_EQ(error({{Group({0, 1})}}), "tier 0: rank 2 is in no group");
  EXPECT_EQ(error({{Group({0, 1, 2}), Group()}}), "tier 0: group 1 is empty");
  EXPECT_EQ(error({{Group({0, 1, 3})}}), "tier 0: rank 3 is not in [0, 3)");
  EXPECT_EQ(error({{Group({0, 1, 2, 1})}}), "tier 0: rank 1 is in it twice");
  EXPECT_EQ(error({pair, {Group({0}), Group({1, 2})}, all}), "tier 1: group 0 of tier 0 is split");
}

}  // namespace
}  // namespace echelon
