// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/slow_links.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/plan/choose.h"
#include "lib/schedule/machine.h"

namespace echelon {
namespace {

constexpr double kGigabit = 119.6e6;
constexpr double kSlow = kGigabit / 5;
constexpr double kMuch = 48 << 20;

// hosts x 2 ranks with `speed` out of each host; with racks, of two hosts each with `uplink`.
struct Cluster {
  int hosts = 4;
  double speed = kGigabit;
  double uplink = 0;

  Layout layout() const {
    Layout layout;
    layout.size = 2 * hosts;
    Tier host{TierKind::kHost, {}}, rack{TierKind::kRack, {}}, cluster{TierKind::kCluster, {}};
    for (int h = 0; h < hosts; ++h) {
      const Group ranks({2 * h, 2 * h + 1});
      TierGroup group{ranks, {Group({2 * h}), Group({2 * h + 1})}, {}, {0, 0}, Source::kDefault};
      group.link = {LinkKind::kShm, 0.3e-6, 10e9, Source::kDefault};
      host.groups.push_back(group);
      layout.host_of_rank.insert(layout.host_of_rank.end(), 2, h);
      layout.host_names.push_back("host" + std::to_string(h));
    }
    layout.tiers.push_back(host);
    const auto join = [&](int begin, int end) {
      std::vector<int> ranks;
      for (int r = 2 * begin; r < 2 * end; ++r) ranks.push_back(r);
      TierGroup group{Group(ranks), {}, {}, {}, Source::kMeasured};
      group.link = {LinkKind::kEthernet, 20e-6, speed, Source::kMeasured};
      return group;
    };
    TierGroup all = join(0, hosts);
    if (uplink == 0) {
      for (const TierGroup& h : host.groups) all.children.push_back(h.ranks);
      all.child_bandwidth.assign(hosts, speed);
    } else {
      for (int h = 0; h < hosts; h += 2) {
        TierGroup group = join(h, h + 2);
        group.children = {host.groups[h].ranks, host.groups[h + 1].ranks};
        group.child_bandwidth = {speed, speed};
        all.children.push_back(group.ranks);
        rack.groups.push_back(group);
      }
      all.child_bandwidth.assign(hosts / 2, uplink);
      layout.tiers.push_back(rack);
    }
    cluster.groups.push_back(all);
    layout.tiers.push_back(cluster);
    return layout;
  }
};

// Every rank has sent to the next host, at the speeds of hosts[h] -> hosts[h + 1], which its two
// ranks share.
std::vector<SentToHost> ring(const std::vector<double>& speeds) {
  std::vector<SentToHost> sent;
  const int hosts = static_cast<int>(speeds.size());
  for (int h = 0; h < hosts; ++h)
    for (int r : {2 * h, 2 * h + 1})
      sent.push_back({r, (h + 1) % hosts, kMuch, kMuch / speeds[h] * 2});
  return sent;
}

const std::vector<double> kHost2IsSlow{kGigabit, kSlow, kSlow, kGigabit};

TEST(LinkRates, AddUpTheRanksOfAHost) {
  const Layout layout = Cluster{}.layout();
  const auto rates = link_rates(layout, ring(kHost2IsSlow));
  ASSERT_EQ(rates.size(), 4u);
  for (std::size_t h = 0; h < 4; ++h) {
    EXPECT_EQ(rates[h].from, h);
    EXPECT_EQ(rates[h].to, (h + 1) % 4);
    EXPECT_NEAR(rates[h].measured, kHost2IsSlow[h], 1);
    EXPECT_NEAR(rates[h].assumed, kGigabit, 1);
    EXPECT_EQ(rates[h].is_slow(), h == 1 || h == 2);
  }
}

TEST(LinkRates, OneStreamIsNotComparedWithAllOfThem) {
  Layout layout = Cluster{}.layout();
  layout.tiers[1].groups[0].child_bandwidth.assign(4, 2 * kGigabit);  // two NICs
  const auto rates = link_rates(layout, {{0, 1, kMuch, kMuch / kGigabit}});
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_NEAR(rates[0].assumed, kGigabit, 1);
}

TEST(LinkRates, WhatTheLayoutDoesNotHaveIsLeftOut) {
  const Layout layout = Cluster{}.layout();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(link_rates(layout, {{8, 1, 1, 1},
                                  {-1, 1, 1, 1},
                                  {0, 4, 1, 1},
                                  {0, -1, 1, 1},
                                  {0, 0, 1, 1},
                                  {0, 1, 1, 0},
                                  {0, 1, nan, 1},
                                  {0, 1, 1, nan}})
                  .empty());
}

TEST(LinkRates, AcrossRacksAreThoseOfTheUplinks) {
  const Layout layout = Cluster{4, 1.25e9, kGigabit}.layout();
  const auto rates = link_rates(layout, ring({1.25e9, kGigabit / 2, 1.25e9, kGigabit / 2}));
  ASSERT_EQ(rates.size(), 4u);
  for (const LinkRate& r : rates) {
    EXPECT_NEAR(r.assumed, r.tier == 2 ? kGigabit : 1.25e9, 1);
    EXPECT_FALSE(r.is_slow()) << "the other host of the rack may have used the rest";
  }
}

// What a host sends within its rack waits for the uplink, and says little of the host's own link.
TEST(LinkRates, ThatAnotherNetworkLimitsAreNotSlow) {
  const Layout layout = Cluster{4, 1.25e9, kGigabit}.layout();
  const auto slow = [&](double host, double uplink) {
    std::vector<bool> by_tier(layout.tiers.size());
    for (const LinkRate& r : link_rates(layout, ring({host, uplink, host, uplink})))
      if (r.is_slow()) by_tier[r.tier] = true;
    return by_tier;
  };
  EXPECT_EQ(slow(4 * kGigabit, kGigabit), std::vector({false, false, false}));
  EXPECT_EQ(slow(1.9 * kGigabit, kGigabit), std::vector({false, true, false}));
  EXPECT_EQ(slow(1.25e9, kSlow), std::vector({false, false, true}));
  EXPECT_EQ(slow(1.9 * kGigabit, kSlow), std::vector({false, false, true})) << "assumed too much";
}

TEST(SlowLinks, ThreePeriodsInARowAreTakenSeriously) {
  const Layout layout = Cluster{}.layout();
  const auto slow = link_rates(layout, ring(kHost2IsSlow));
  const auto fine = link_rates(layout, ring({kGigabit, kGigabit, kGigabit, kGigabit}));
  SlowLinks links;
  EXPECT_TRUE(links.judge(slow).empty());
  EXPECT_TRUE(links.judge(slow).empty());
  EXPECT_TRUE(links.judge(fine).empty()) << "it begins anew";
  EXPECT_TRUE(links.judge(slow).empty());
  EXPECT_TRUE(links.judge({}).empty()) << "a period without large messages does not count";
  EXPECT_TRUE(links.judge(slow).empty());
  const auto found = links.judge(slow);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].child, 2u);
}

TEST(SlowLinks, LittleTrafficSaysNothing) {
  const Layout layout = Cluster{}.layout();
  SlowLinks links;
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(links.judge(link_rates(layout, {{0, 1, 1e6, 1}})).empty());
}

std::vector<SlowLink> after_three(const Layout& layout, const std::vector<SentToHost>& sent) {
  SlowLinks links;
  links.judge(link_rates(layout, sent));
  links.judge(link_rates(layout, sent));
  return links.judge(link_rates(layout, sent));
}

TEST(SlowLinks, TheHostThatIsSlowWithAllOthersIsToBlame) {
  for (std::size_t slow = 0; slow < 4; ++slow) {
    std::vector<double> speeds(4, kGigabit);
    speeds[slow] = speeds[(slow + 3) % 4] = kSlow;
    const auto found = after_three(Cluster{}.layout(), ring(speeds));
    ASSERT_EQ(found.size(), 1u) << slow;
    EXPECT_EQ(found[0].child, slow);
    EXPECT_NEAR(found[0].rate.measured, kSlow, 1);
  }
}

TEST(SlowLinks, TwoHostsAreBothSuspectAndOneIsTaken) {
  const Layout layout = Cluster{2}.layout();
  const auto found = after_three(layout, ring({kSlow, 0.9 * kSlow}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].child, 0u);
  EXPECT_NEAR(found[0].rate.measured, kSlow, 1) << "of both directions the better one";
}

TEST(SlowLinks, WhatWasTakenOverIsNotSlowAnyMore) {
  Layout layout = Cluster{}.layout();
  const Shape before = make_shape(layout, true);
  const auto found = after_three(layout, ring(kHost2IsSlow));
  ASSERT_EQ(found.size(), 1u);
  const std::string text = describe(found[0], layout);
  EXPECT_NE(text.find("host2"), text.npos) << text;
  EXPECT_NE(text.find("23.92 MB/s"), text.npos) << text;
  EXPECT_NE(text.find("119.6 MB/s"), text.npos) << text;
  take_over(found[0], layout);
  EXPECT_EQ(validate(layout), "");
  for (const LinkRate& r : link_rates(layout, ring(kHost2IsSlow))) EXPECT_FALSE(r.is_slow());
  const Shape after = make_shape(layout, true);
  EXPECT_NEAR(after.tiers[1].slowest_child, kSlow, 1);
  EXPECT_NEAR(after.tiers[1].all_children, 3 * kGigabit + kSlow, 10) << "the others stay";
  const double bytes = 64 << 20;
  EXPECT_GT(choose(after, ECH_ALLREDUCE, bytes).best.prediction.seconds,
            4 * choose(before, ECH_ALLREDUCE, bytes).best.prediction.seconds);
}

// Numbers of the file are of the wire, those that were measured of its users.
// Between containers: a stream by itself is quicker than what ranks get that add up, too.
TEST(SlowLinks, WhereMoreHasPassedThanDevicesClaimTheClaimIsWhatCounts) {
  Layout layout = Cluster{4, 1.25e9}.layout();
  apply_measured(layout, TierKind::kCluster, {LinkKind::kEthernet, 5e-6, 7e9, Source::kMeasured});
  const auto slow_at = [&](double speed) {
    const std::vector<LinkRate> rates = link_rates(layout, ring({speed, speed, speed, speed}));
    EXPECT_EQ(rates[0].assumed, 7e9);
    SlowLinks links;
    for (int period = 1; period < SlowLinks::kPeriods; ++period) links.judge(rates);
    return !links.judge(rates).empty();
  };
  EXPECT_FALSE(slow_at(3e9));
  EXPECT_FALSE(slow_at(0.65e9));
  EXPECT_TRUE(slow_at(0.6e9));
}

TEST(SlowLinks, OneMeasuredNumberLeavesTheOthersWhatTheyWere) {
  Layout layout = Cluster{}.layout();
  layout.tiers[1].groups[0].child_source = Source::kFile;
  const double before = make_shape(layout, true).tiers[1].all_children;
  set_child_speed(layout.tiers[1].groups[0], 2, kSlow);
  const double after = make_shape(layout, true).tiers[1].all_children;
  EXPECT_NEAR(after - kSlow, before * 3 / 4, 10);
}

// Everything that is sent to be copied has been added up from all ranks.
void expect_complete_copies(const Shape& shape, const Recipe& recipe) {
  const Schedule schedule = compose(composition_of(shape, recipe, ECH_ALLREDUCE, 0));
  Machine machine(schedule, ECH_ALLREDUCE, shape.size, 0);
  while (!machine.done()) {
    for (const Transfer& t : schedule.transfers()) {
      if (t.step != machine.step() || t.action != Action::kCopy) continue;
      const Range range = machine.cuts().range(t.slice);
      for (std::size_t i = range.begin; i < range.end; ++i)
        ASSERT_TRUE(machine.expressions().complete(machine.at(t.from, i)))
            << to_text(recipe) << " of " << shape.size << " ranks, step " << t.step;
    }
    ASSERT_EQ(machine.advance(), "");
  }
}

// What metering rests on: who sends such a thing knows that all ranks take part.
TEST(Metering, CopiesHaveEverybodysInput) {
  int recipes = 0, by_leaders = 0;
  for (const Cluster& cluster : {Cluster{2}, Cluster{3}, Cluster{7}, Cluster{8},
                                 Cluster{4, kGigabit, 1e9}, Cluster{6, kGigabit, 1e9}}) {
    const Shape shape = make_shape(cluster.layout(), true);
    for (const Recipe& recipe : candidates(shape, ECH_ALLREDUCE)) {
      if (!adds_before_it_spreads(recipe)) continue;
      ++recipes;
      by_leaders += recipe.ownership == Ownership::kLeader ? 1 : 0;
      expect_complete_copies(shape, recipe);
    }
  }
  EXPECT_GT(recipes, 20);
  EXPECT_GT(by_leaders, 5);
}

TEST(MeteredRecipes, SendAsMuchToEachHost) {
  for (const char* text :
       {"ring", "native/ring@1MiB", "direct", "native/direct", "leader:native/ring"})
    EXPECT_TRUE(tells_of_links(parse_recipe(text))) << text;
  for (const char* text : {"halving_doubling", "native/halving_doubling", "native/binomial",
                           "leader:native/binomial", "leader:native/recursive_doubling"})
    EXPECT_FALSE(tells_of_links(parse_recipe(text))) << text;
}

}  // namespace
}  // namespace echelon
