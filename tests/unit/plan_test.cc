// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/plan/choose.h"

namespace echelon {
namespace {

constexpr double kGigabit = 119.6e6;

// hosts x ranks, all alike, `network` bytes/s out of each host.
Layout flat_cluster(int hosts, int ranks, double network) {
  Layout layout;
  layout.size = hosts * ranks;
  Tier host{TierKind::kHost, {}}, cluster{TierKind::kCluster, {}};
  TierGroup all;
  all.ranks = Group::range(layout.size);
  all.link = {LinkKind::kEthernet, 20e-6, network, Source::kMeasured};
  for (int h = 0; h < hosts; ++h) {
    std::vector<int> members;
    TierGroup group;
    for (int r = 0; r < ranks; ++r) {
      members.push_back(h * ranks + r);
      group.children.push_back(Group({members.back()}));
      layout.host_of_rank.push_back(h);
    }
    layout.host_names.push_back("host" + std::to_string(h));
    group.ranks = Group(members);
    group.link = {LinkKind::kShm, 0.3e-6, 10e9, Source::kDefault};
    host.groups.push_back(group);
    all.children.push_back(group.ranks);
    all.child_bandwidth.push_back(network);
    all.child_source = Source::kMeasured;
  }
  cluster.groups.push_back(all);
  if (ranks > 1) layout.tiers.push_back(host);
  if (hosts > 1) layout.tiers.push_back(cluster);
  return layout;
}

TEST(Recipe, TextParsesBack) {
  for (const char* text : {"ring", "native/ring", "leader:native/recursive_doubling@64KiB",
                           "native/ring/double_tree@3MiB", "direct@1"}) {
    EXPECT_EQ(to_text(parse_recipe(text)), text);
  }
  EXPECT_EQ(parse_recipe("native/ring@1024KiB").segment, 1u << 20);
}

TEST(Recipe, WhatIsWrongIsNamed) {
  for (const char* text : {"", "/", "rong", "ring/", "ring@", "ring@0", "ring@1KB", "ring@-1",
                           "lead:ring", "ring@99999999GiB", "ring@1MiB/ring"}) {
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

TEST(Bound, NoPredictionIsBelowIt) {
  const Shape shape = make_shape(flat_cluster(4, 2, kGigabit), true);
  for (ech_collective c :
       {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE}) {
    for (double bytes = 8; bytes < 1e9; bytes *= 4) {
      const double bound = lower_bound(shape, c, bytes).seconds;
      for (const Recipe& r : candidates(shape, c))
        EXPECT_GE(predict(shape, r, c, bytes).seconds, 0.999 * bound) << to_text(r) << bytes;
    }
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
        for (ech_collective c :
             {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE}) {
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
  for (ech_collective c :
       {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE}) {
    for (const Recipe& r : candidates(shape, c))
      EXPECT_NO_THROW(compose(composition_of(shape, r, c, 1))) << to_text(r);
  }
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
