// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/plan/choose.h"
#include "lib/schedule/cost.h"
#include "tests/unit/plan_machines.h"
#include "tests/unit/schedule/sent.h"

namespace echelon {
namespace {

TEST(Recipe, TextParsesBack) {
  for (const char* text : {"ring", "native/ring", "leader:native/recursive_doubling@64KiB",
                           "native/ring/double_tree@3MiB", "direct@1"}) {
    EXPECT_EQ(to_text(parse_recipe(text)), text);
  }
  EXPECT_EQ(parse_recipe("native/ring@1024KiB").segment, 1u << 20);
  EXPECT_EQ(parse_recipe("native/ring@1M").segment, 1u << 20) << "as perf takes sizes";
}

TEST(Recipe, WhatIsWrongIsNamed) {
  for (const char* text : {"", "/", "rong", "ring/", "ring@", "ring@0", "ring@1KB", "ring@1Ki",
                           "ring@-1", "lead:ring", "ring@99999999GiB", "ring@1MiB/ring"}) {
    try {
      parse_recipe(text);
      FAIL() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
      EXPECT_NE(std::string(e.what()).find("halving_doubling"), std::string::npos);
    }
  }
}

TEST(Bound, IsTheTextbookOneOnEqualHosts) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  const double bytes = 64 << 20;
  const Bound bound = lower_bound(shape, ECH_ALLREDUCE, bytes);
  EXPECT_NEAR(bound.seconds, 1.5 * bytes / kGigabit, 1e-9);
  EXPECT_NE(bound.reason.find("bandwidth"), std::string::npos);
}

TEST(Bound, OfALineRateIsWhatUsersGet) {
  Layout layout = flat_cluster(2, 1, 125e6);
  layout.tiers[0].groups[0].link.source = Source::kFile;
  layout.tiers[0].groups[0].child_source = Source::kFile;
  const Bound bound = lower_bound(make_shape(layout, true), ECH_ALLREDUCE, 125e6);
  EXPECT_NEAR(bound.seconds, 1 / 0.9564, 1e-3);
}

// A host of 3 ranks has 3 of 6 blocks: half of the buffer is for others, and half is its own.
TEST(Bound, OfBlocksIsWhatTheirOwnersNeed) {
  Machines three{{3, 1, 2}, {3}};
  three.network = {0.1, 1, 1};
  for (const ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER})
    EXPECT_NEAR(lower_bound(make_shape(layout_of(three), true), c, 6e6).seconds,
                3e6 / (kGigabit / 10), 1e-9);
  three.network = {1, 0.1, 1};  // 5 of 6 leave the host of one rank
  EXPECT_NEAR(lower_bound(make_shape(layout_of(three), true), ECH_REDUCE_SCATTER, 6e6).seconds,
              5e6 / (kGigabit / 10), 1e-9);
}

class Uneven : public testing::TestWithParam<Machines> {};
INSTANTIATE_TEST_SUITE_P(
    Machines, Uneven,
    testing::Values(Machines{{2, 2, 2, 2}, {4}}, Machines{{3, 1, 2}, {3}},
                    Machines{{3, 1, 2}, {3}, {0.1, 1, 1}}, Machines{{3, 1, 2}, {3}, {1, 0.1, 1}},
                    Machines{{1, 1, 1, 1, 1}, {5}, {1, 2, 3, 4, 5}}, Machines{{1, 7}, {2}},
                    Machines{{2, 2, 2, 2}, {2, 2}}, Machines{{3, 1, 4}, {2, 1}},
                    Machines{{1, 2, 3, 4, 5}, {2, 2, 1}, {1, 1, 1, 0.2, 1}},
                    Machines{{1, 1, 1, 1, 1}, {3, 1, 1}}, Machines{{8, 1, 1, 1}, {3, 1}}));

TEST_P(Uneven, NoPredictionIsBelowTheBound) {
  const Shape shape = make_shape(layout_of(GetParam()), true);
  for (ech_collective c : kCollectives) {
    for (double bytes = 8; bytes < 1e9; bytes *= 4) {
      const double bound = lower_bound(shape, c, bytes).seconds;
      EXPECT_GT(bound, 0);
      for (const Recipe& r : candidates(shape, c))
        EXPECT_GE(predict(shape, r, c, bytes).seconds, 0.999 * bound)
            << name(c) << ' ' << to_text(r) << ' ' << bytes;
    }
  }
}

TEST_P(Uneven, TheBestPredictionIsNotFarAboveTheBound) {
  const Shape shape = make_shape(layout_of(GetParam()), true);
  for (ech_collective c : kCollectives) {
    const Choice choice = choose(shape, c, 256 << 20);
    EXPECT_LT(choice.best.prediction.seconds, 2.5 * choice.bound.seconds)
        << name(c) << ' ' << to_text(choice.best.recipe) << " next to " << choice.bound.reason;
  }
}

// What a prediction says of the busiest network, against what the schedule really sends there.
TEST_P(Uneven, NoHostOrRackCarriesMoreThanPredicted) {
  const Layout layout = layout_of(GetParam());
  const Shape shape = make_shape(layout, true);
  for (ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_ALLREDUCE})
    for (const char* inner : {"native", "ring"})
      for (const char* outer : {"ring", "direct", "halving_doubling"}) {
        std::string text = inner;
        for (std::size_t t = 1; t < shape.tiers.size(); ++t) text += std::string("/") + outer;
        const Recipe recipe = parse_recipe(text);
        const Schedule schedule = compose(composition_of(shape, recipe, c, 0));
        double most = 0;  // s, were the buffer one second's worth of the slowest network
        for (const Tier& tier : layout.tiers) {
          if (tier.kind == TierKind::kHost) continue;
          std::vector<int> domain(layout.size);
          double slowest = 1e18;
          int next = 0;
          for (const TierGroup& group : tier.groups)
            for (const Group& child : group.children) {
              for (int rank : child.ranks()) domain[rank] = next;
              ++next;
            }
          for (const TierGroup& group : tier.groups)
            for (const double b : group.child_bandwidth) slowest = std::min(slowest, b);
          const auto cuts = cut_traffic(schedule, domain);
          next = 0;
          for (const TierGroup& group : tier.groups)
            for (const double b : group.child_bandwidth) {
              const CutTraffic& cut = cuts[next++];
              if (group.children.size() > 1)
                most = std::max(most, std::max(cut.out, cut.in) / double(schedule.units()) / b);
            }
        }
        EXPECT_GE(predict(shape, recipe, c, 1e9).seconds, 0.999e9 * most) << name(c) << ' ' << text;
      }
}

TEST(Choice, LargeMessagesPipelineTheHierarchyCloseToTheBound) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  const Choice c = choose(shape, ECH_ALLREDUCE, 64 << 20);
  EXPECT_EQ(c.best.recipe.ownership, Ownership::kSplit);
  ASSERT_EQ(c.best.recipe.algorithms.size(), 2u);
  EXPECT_EQ(c.best.recipe.algorithms[0], Algorithm::kNative);
  EXPECT_GT(c.best.recipe.segment, 0u);
  EXPECT_LT(c.best.prediction.seconds, 1.1 * c.bound.seconds);
  EXPECT_GE(c.best.prediction.seconds, c.bound.seconds);
  EXPECT_FALSE(c.reason.empty());
}

// 16 KiB are worth a message on a slow link; on fast links the processors ask for more in each.
TEST(Choice, SegmentsAreAsSmallAsTheProcessorsAllow) {
  const auto segment = [](const Layout& layout) {
    return choose(make_shape(layout, true), ECH_ALLREDUCE, 64 << 20).best.recipe.segment;
  };
  EXPECT_EQ(segment(flat_cluster(4, 2, kGigabit)), 128u << 10);
  EXPECT_EQ(segment(flat_cluster(4, 2, 10 * kGigabit)), 256u << 10);
  EXPECT_EQ(segment(flat_cluster(8, 4, kGigabit)), 512u << 10);
}

// The parts of 3, 1 and 2 ranks cut the buffer into four, and the rank that is alone sends all of
// them.
TEST(Choice, ManySmallPartsAreNotTakenForOne) {
  const auto shape = [](std::vector<int> ranks) {
    const int hosts = static_cast<int>(ranks.size());
    return make_shape(layout_of({std::move(ranks), {hosts}}), true);
  };
  EXPECT_EQ(shape({3, 1, 2}).tiers[1].rails_of_rank, 4);
  EXPECT_EQ(shape({3, 2}).tiers[1].rails_of_rank, 2);
  EXPECT_EQ(shape({8, 4}).tiers[1].rails_of_rank, 2);
  EXPECT_EQ(shape({4, 4, 4}).tiers[1].rails_of_rank, 1);
  for (double bytes : {4, 1 << 10}) {
    const Choice c = choose(shape({3, 1, 2}), ECH_ALLREDUCE, bytes);
    EXPECT_EQ(c.best.recipe.ownership, Ownership::kLeader) << to_text(c.best.recipe);
  }
}

TEST(Choice, SmallBlocksGoByLeaders) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  for (const ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER}) {
    EXPECT_EQ(choose(shape, c, 1 << 10).best.recipe.ownership, Ownership::kLeader) << name(c);
    EXPECT_EQ(choose(shape, c, 1 << 20).best.recipe.ownership, Ownership::kSplit) << name(c);
  }
}

// Who serves the call divides it as is best there.
TEST(Choice, OneCallOfAHostIsNotCut) {
  const Shape shape = make_shape(flat_cluster(1, 4, kGigabit), true);
  for (const ech_collective c : {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST})
    for (double bytes : {1 << 10, 1 << 20, 256 << 20})
      EXPECT_EQ(to_text(choose(shape, c, bytes).best.recipe), "native") << name(c) << ' ' << bytes;
}

// A member of a binomial tree for every owner sends to all others, one message each.
TEST(Choice, ManyMessagesAreNotTakenForFewRounds) {
  const Shape shape = make_shape(flat_cluster(200, 1, kGigabit), false);
  for (const ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER})
    for (double bytes = 1 << 10; bytes <= 1 << 20; bytes *= 2) {
      const Choice choice = choose(shape, c, bytes);
      EXPECT_NE(to_text(choice.best.recipe), "binomial") << bytes;
      EXPECT_GT(predict(shape, parse_recipe("binomial"), c, bytes).seconds, 199 * 4e-6);
    }
}

TEST(Choice, SmallMessagesTakeTheFewestRounds) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  const Choice c = choose(shape, ECH_ALLREDUCE, 8);
  EXPECT_LE(c.best.prediction.rounds, 4);
  EXPECT_LT(c.best.prediction.seconds, 60e-6);
}

TEST(Choice, EveryCollectiveHasOneOnEveryShape) {
  for (int hosts : {1, 2, 3, 7})
    for (int ranks : {1, 2, 5})
      for (bool native : {false, true})
        for (ech_collective c : kCollectives) {
          if (hosts * ranks == 1) continue;
          const Shape shape = make_shape(flat_cluster(hosts, ranks, 1e9), native);
          const Choice choice = choose(shape, c, 1 << 20);
          ASSERT_FALSE(choice.best.recipe.algorithms.empty());
          const auto composition = composition_of(shape, choice.best.recipe, c, 0);
          EXPECT_NO_THROW(compose(composition)) << to_text(choice.best.recipe);
        }
}

TEST(Choice, EveryCandidateCanBeComposed) {
  const Shape shape = make_shape(flat_cluster(3, 2, 1e9), true);
  for (ech_collective c : kCollectives) {
    for (const Recipe& r : candidates(shape, c))
      EXPECT_NO_THROW(compose(composition_of(shape, r, c, 1))) << to_text(r);
  }
}

Sent sent(const Shape& shape, const Recipe& recipe, ech_collective collective) {
  return sent(compose(composition_of(shape, recipe, collective, 1)));
}

// Of those that send the same only one is listed; one that is asked for is taken all the same.
TEST(Choice, LeavesOutOnlyWhatAnotherDoesToo) {
  int left_out = 0;
  for (const Machines& machines : {Machines{{2, 2}, {2}},
                                   Machines{{1, 1}, {2}},
                                   {{3, 1}, {2}},
                                   {{2, 2, 2}, {3}},
                                   {{2, 2, 1, 1}, {2, 2}},
                                   {{1, 2, 1}, {2, 1}},
                                   {{1, 1, 1, 1, 1}, {2, 3}, {0.1, 1, 1, 1, 1}}}) {
    const Shape shape = make_shape(layout_of(machines), true);
    for (ech_collective c : kCollectives) {
      const Choice choice = choose(shape, c, 1 << 20);
      std::vector<Recipe> listed = {choice.best.recipe};
      for (const Candidate& other : choice.rejected) listed.push_back(other.recipe);
      for (Recipe& recipe : listed) recipe.segment = 0;
      for (const Recipe& recipe : candidates(shape, c)) {
        if (std::ranges::find(listed, recipe) != listed.end()) continue;
        ++left_out;
        EXPECT_TRUE(std::ranges::any_of(
            listed,
            [&](const Recipe& other) { return sent(shape, recipe, c) == sent(shape, other, c); }))
            << to_text(recipe) << ' ' << name(c);
        EXPECT_EQ(choose(shape, c, 1 << 20, recipe).best.recipe.algorithms, recipe.algorithms);
      }
    }
  }
  EXPECT_GT(left_out, 50);
}

TEST(Choice, WithoutMessagesOnlyTheGroupIsUsed) {
  Shape shape = make_shape(flat_cluster(1, 4, kGigabit), true);
  shape.messages = false;
  shape.tiers[0].link.latency = 1;  // as if measured while the machine was busy
  for (int c = ECH_ALLREDUCE; c <= ECH_REDUCE; ++c) {
    const Choice choice = choose(shape, static_cast<ech_collective>(c), 8);
    EXPECT_EQ(to_text(choice.best.recipe), "native");
    EXPECT_TRUE(choice.rejected.empty());
  }
}

TEST(Choice, AnImpossiblePlanListsThePossibleOnes) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  try {
    choose(shape, ECH_ALLREDUCE, 1024, parse_recipe("ring/native"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    const std::string text = e.what();
    EXPECT_NE(text.find("possible are {native|ring|"), std::string::npos) << text;
    EXPECT_NE(text.find("}/{ring|"), std::string::npos) << text;
    EXPECT_NE(text.find(", leader:{native|"), std::string::npos) << text;
    EXPECT_NE(text.find("}, {ring|"), std::string::npos) << text;
  }
}

// On three tiers hundreds are possible: they are not counted up.
TEST(Choice, TheListOfPossiblePlansIsShort) {
  Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  shape.tiers.push_back(shape.tiers.back());
  ASSERT_GT(candidates(shape, ECH_ALLREDUCE).size(), 100u);
  try {
    choose(shape, ECH_ALLREDUCE, 1024, parse_recipe("ring/ring"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_LT(std::string(e.what()).size(), 600u) << e.what();
  }
}

TEST(Choice, AWantedPlanIsTakenAndGetsASegment) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  const Choice c = choose(shape, ECH_ALLREDUCE, 64 << 20, parse_recipe("ring"));
  EXPECT_EQ(c.best.recipe.algorithms, std::vector{Algorithm::kRing});
  EXPECT_EQ(c.reason, "asked for");
}

}  // namespace
}  // namespace echelon
