// SPDX-License-Identifier: Apache-2.0
// What the model knows of ranks that outnumber CPUs.
#include <gtest/gtest.h>

#include "lib/base/dtype.h"
#include "lib/plans.h"
#include "tests/unit/plan_machines.h"

namespace echelon {
namespace {

double time_of(const Shape& shape, const char* plan, ech_collective collective, double bytes) {
  return predict(shape, parse_recipe(plan), collective, bytes).seconds;
}

// In one round each leader of three sends two messages: six, where four do in three rounds.
TEST(CrowdedPlans, TakeFewMessages) {
  Shape shape = make_shape(layout_of({{3, 1, 2}, {3}}), true);
  shape.tiers[1].link.latency = 7e-6;
  const auto plan = [&] { return to_text(choose(shape, ECH_ALLREDUCE, 4).best.recipe); };
  EXPECT_EQ(plan(), "leader:native/one_shot");
  shape.cpus_per_rank = 2.0 / 6;
  EXPECT_EQ(plan(), "leader:native/recursive_doubling");
}

// Two more messages, two rounds less.
TEST(CrowdedPlans, HaveFewRoundsWhereTheyAreSmall) {
  Shape shape = make_shape(layout_of({{2, 2, 2, 2}, {4}}), true);
  shape.tiers[1].link.latency = 7e-6;
  shape.cpus_per_rank = 2.0 / 8;
  EXPECT_EQ(to_text(choose(shape, ECH_ALLREDUCE, 4).best.recipe),
            "leader:native/recursive_doubling");
  const auto time = [&](const char* plan) { return time_of(shape, plan, ECH_ALLREDUCE, 4); };
  EXPECT_NEAR(time("leader:native/binomial"), 105e-6, 3e-6) << "6 messages, 4 rounds";
  EXPECT_NEAR(time("leader:native/one_shot"), 136e-6, 3e-6) << "12 messages, 1 round";
}

TEST(CrowdedPlans, NameWhatMessagesTakeOfTheProcessors) {
  Shape shape = make_shape(layout_of({{3, 1, 2}, {3}}), true);
  shape.tiers[1].link.latency = 7e-6;
  const Recipe plan = parse_recipe("leader:native/recursive_doubling");
  const auto messages = [&] { return predict(shape, plan, ECH_ALLREDUCE, 4).messages; };
  EXPECT_EQ(messages(), 0);
  shape.cpus_per_rank = 2.0 / 6;
  EXPECT_EQ(messages(), 4);
  const std::string text = choose(shape, ECH_ALLREDUCE, 4).reason;
  EXPECT_TRUE(text.starts_with("what 4 messages and their rounds take of the processors; "))
      << text;
  shape.tiers[1].link.latency = 1e-3;
  EXPECT_TRUE(choose(shape, ECH_ALLREDUCE, 4).reason.starts_with("the latency of "));
}

// While a leader of four adds up, three wait; when they copy what it has, they share the CPUs.
TEST(CrowdedPlans, GiveALeaderACpuOfItsOwn) {
  Shape shape = make_shape(layout_of({{4, 4}, {2}}), true);
  const double bytes = 16 << 10, buffer = bytes / shape.tiers[0].slowest_child;
  const char* const plan = "leader:native/binomial";
  const double reduce = time_of(shape, plan, ECH_REDUCE, bytes);
  const double broadcast = time_of(shape, plan, ECH_BROADCAST, bytes);
  shape.crowded_wait = shape.busy_byte = 0;
  shape.cpus_per_rank = 3.0 / 8;
  EXPECT_NEAR(reduce - time_of(shape, plan, ECH_REDUCE, bytes), (3 - 3 * 3.0 / 8) * buffer, 1e-9);
  EXPECT_NEAR(broadcast - time_of(shape, plan, ECH_BROADCAST, bytes), 0.25 * buffer, 1e-9);
  shape.tiers[0].link.kind = LinkKind::kNvlink;
  EXPECT_NEAR(time_of(shape, plan, ECH_REDUCE, bytes), reduce, 1e-9) << "no CPU moves this";
}

// Over sockets eight ranks with two CPUs take 0.8 ns for each byte, and more in larger segments,
// wherever the links could take more.
TEST(CrowdedPlans, AreLimitedByProcessors) {
  Shape shape = make_shape(layout_of({{2, 2, 2, 2}, {4}}), true);
  TierShape& network = shape.tiers[1];
  network.link.bytes_per_second = network.slowest_child = 2e9;
  const double bytes = 16 << 20, work = 4 * 1.5 * bytes * 0.8e-9 / 2;
  const auto ring = [&](const char* plan) {
    return predict(shape, parse_recipe(plan), ECH_ALLREDUCE, bytes);
  };
  EXPECT_LT(ring("native/ring@256KiB").seconds, work);
  shape.cpus_per_rank = 2.0 / 8;
  EXPECT_GT(ring("native/ring@256KiB").seconds, work);
  EXPECT_EQ(ring("native/ring@256KiB").busiest, "the processors");
  EXPECT_LT(ring("native/ring@256KiB").seconds, ring("native/ring@128KiB").seconds) << "messages";
  network.link.kind = LinkKind::kInfiniband;
  EXPECT_LT(ring("native/ring@256KiB").seconds, work) << "no processor copies there";
}

// All ranks together send n - 1 buffers, however unequal the shares are.
TEST(CrowdedPlans, CountBytesOfUnequalHostsOnce) {
  Shape shape = make_shape(layout_of({{3, 1, 2}, {3}, {}, 1e12}), true);
  shape.tiers[0].slowest_child = 1e12;
  shape.crowded_wait = shape.busy_message = 0;
  shape.reduce_speed = 1e15;
  shape.cpus_per_rank = 2.0 / 6;
  const double bytes = 256 << 20, least = 2 * bytes * 1.2 * 0.8e-9 / 2;
  for (const char* plan : {"native/ring", "native/direct"})
    for (const ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER})
      EXPECT_NEAR(time_of(shape, plan, c, bytes), least, 0.1 * least) << plan << ' ' << name(c);
}

// Of the ten buffers that six ranks send round, three of three hosts' six edges carry five.
TEST(CrowdedPlans, CountWhatAFlatRingMovesInHosts) {
  Shape shape = make_shape(layout_of({{2, 2, 2}, {3}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 6;
  const double bytes = 64 << 20, memory = shape.tiers[0].slowest_child;
  const double whole = time_of(shape, "ring", ECH_ALLREDUCE, bytes);
  const double cut = time_of(shape, "ring@1MiB", ECH_ALLREDUCE, bytes);
  shape.tiers[0].slowest_child /= 2;
  const double more = 5 * bytes / 6 / memory;
  EXPECT_NEAR(time_of(shape, "ring", ECH_ALLREDUCE, bytes) - whole, more, 1e-6);
  EXPECT_NEAR(time_of(shape, "ring@1MiB", ECH_ALLREDUCE, bytes) - cut, more, 1e-6);
}

// Half of the edges leave hosts, be these in one rack or in two.
TEST(CrowdedPlans, CountWhatAFlatRingSendsBetweenHosts) {
  for (const std::vector<int>& racks : {std::vector{4}, std::vector{2, 2}}) {
    Shape shape = make_shape(layout_of({{2, 2, 2, 2}, racks, {}, 1e12}), true);
    shape.cpus_per_rank = 2.0 / 8;
    const double bytes = 64 << 20, half = 7 * bytes;
    const double work = half * 1.2 * 0.8e-9 / 2 + half / 8 / shape.tiers[0].slowest_child +
                        half / shape.reduce_speed / 2;
    EXPECT_NEAR(time_of(shape, "ring", ECH_ALLREDUCE, bytes), work, 0.01 * work) << racks.size();
  }
}

double quickest(const Shape& shape, Recipe recipe, double bytes) {
  recipe.segment = 0;
  double least = predict(shape, recipe, ECH_ALLREDUCE, bytes).seconds;
  for (recipe.segment = 128 << 10; recipe.segment <= 16 << 20; recipe.segment *= 2)
    least = std::min(least, predict(shape, recipe, ECH_ALLREDUCE, bytes).seconds);
  return least;
}

// Taken segments need not be the best; recipes are not to win or lose by that.
TEST(CrowdedPlans, CompareRecipesByTheirQuickestSegment) {
  for (const std::vector<int>& hosts : {std::vector{4, 4, 4}, std::vector{2, 2, 2, 2}})
    for (const double network : {kGigabit, 1e9, 1e12}) {
      Shape shape =
          make_shape(layout_of({hosts, {static_cast<int>(hosts.size())}, {}, network}), true);
      shape.cpus_per_rank = 2.0 / shape.size;
      for (double bytes = 256 << 10; bytes <= 64 << 20; bytes *= 4) {
        const Choice choice = choose(shape, ECH_ALLREDUCE, bytes);
        const double best = quickest(shape, choice.best.recipe, bytes);
        for (const Candidate& other : choice.rejected)
          EXPECT_LE(best, 1.0001 * choice.alike * quickest(shape, other.recipe, bytes))
              << to_text(choice.best.recipe) << ' ' << to_text(other.recipe) << ' ' << bytes;
      }
    }
}

// Where larger segments take a little less, as they have fewer messages.
TEST(CrowdedPlans, TakeTheSmallestSegmentOfThoseAlike) {
  Shape shape = make_shape(layout_of({{2, 2, 2, 2}, {4}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 8;
  shape.busy_message = 0.3e-6;
  const double bytes = 64 << 20;
  const auto taken = [&] {
    return to_text(choose(shape, ECH_ALLREDUCE, bytes, parse_recipe("native/ring")).best.recipe);
  };
  EXPECT_GT(time_of(shape, "native/ring@128KiB", ECH_ALLREDUCE, bytes),
            time_of(shape, "native/ring@256KiB", ECH_ALLREDUCE, bytes));
  EXPECT_EQ(taken(), "native/ring@128KiB");
  shape.busy_message = 1e-6;
  EXPECT_EQ(taken(), "native/ring@256KiB");
}

// All that is alike is decided by how many ranks work, and how many messages follow each other.
TEST(CrowdedPlans, HaveFewRanksAtWork) {
  const auto plan = [](const Machines& machines, double cpus) {
    Shape shape = make_shape(layout_of(machines), true);
    shape.cpus_per_rank = cpus / shape.size;
    return to_text(choose(shape, ECH_ALLREDUCE, 16 << 20).best.recipe);
  };
  EXPECT_EQ(plan({{2, 2, 2, 2}, {4}, {}, 1e12}, 2), "leader:native/halving_doubling@256KiB");
  EXPECT_EQ(plan({{2, 2}, {2}, {}, 1e12}, 2), "leader:native/ring@256KiB") << "two are no chain";
  EXPECT_EQ(plan({{1, 1, 1, 1}, {4}, {}, 1e12}, 2), "halving_doubling@256KiB") << "ring is one";
  for (const int ranks : {4, 8, 16})
    EXPECT_EQ(plan({{ranks, ranks}, {2}, {}, 1e12}, 2), "leader:native/ring@128KiB")
        << "these fill caches";
  EXPECT_TRUE(plan({{2, 2, 2, 2}, {4}, {}, 1e12}, 8).starts_with("native/"));
}

// A ring of leaders sends what one of parts does, in half as many messages of half as many ranks.
TEST(CrowdedPlans, HaveFewRanksAtWorkWhereTheyWaitForTheNetwork) {
  for (const std::vector<int>& hosts : {std::vector{2, 2, 2, 2}, std::vector{3, 1, 2}}) {
    Shape shape = make_shape(layout_of({hosts, {static_cast<int>(hosts.size())}}), true);
    const auto plan = [&](ech_collective c) {
      return to_text(choose(shape, c, 16 << 20).best.recipe);
    };
    EXPECT_TRUE(plan(ECH_ALLREDUCE).starts_with("native/ring@")) << "a CPU for each rank";
    shape.cpus_per_rank = 2.0 / shape.size;
    EXPECT_EQ(plan(ECH_ALLREDUCE), "leader:native/ring@128KiB");
    EXPECT_TRUE(plan(ECH_REDUCE_SCATTER).starts_with("native/")) << "a message for each block";
    shape.tiers[0].link.kind = LinkKind::kNvlink;
    EXPECT_TRUE(plan(ECH_ALLREDUCE).starts_with("native/ring@")) << "no CPU moves this";
  }
}

// One host of a rack sends for both, which it can where its NIC is quicker than the uplink.
TEST(CrowdedPlans, HaveLeadersOfRacksThatWaitForUplinksAndNotForNics) {
  Shape shape = make_shape(layout_of({{2, 2, 2, 2}, {2, 2}}), true);
  const auto plan = [&](double nics, double megabytes) {
    shape.tiers[1].slowest_child = shape.tiers[1].one_nic = nics * kGigabit;
    shape.tiers[2].slowest_child = kGigabit;
    return to_text(choose(shape, ECH_ALLREDUCE, megabytes * (1 << 20)).best.recipe);
  };
  EXPECT_EQ(plan(10, 16), "native/ring/ring@128KiB") << "a CPU for each rank";
  shape.cpus_per_rank = 2.0 / 8;
  EXPECT_EQ(plan(10, 16), "leader:native/ring/ring@128KiB");
  EXPECT_EQ(plan(10, 4), "leader:native/ring/recursive_doubling@64KiB");
  EXPECT_EQ(plan(1, 16), "native/ring/ring@128KiB");
}

// What leaders give that wait for processors says nothing of their links.
TEST(CrowdedPlans, AreMeteredByLeadersWhereTheyWaitForTheNetwork) {
  for (const double network : {1.0, 1e6}) {
    Shape shape = make_shape(layout_of({{2, 2}, {2}, {network, network}}), true);
    shape.cpus_per_rank = 2.0 / 4;
    Plans plans(shape, 0, std::nullopt);
    const Plan& plan = plans.get({ECH_ALLREDUCE, 16 << 20, 0});
    EXPECT_EQ(to_text(plan.choice.best.recipe),
              network == 1 ? "leader:native/ring@128KiB" : "leader:native/ring@256KiB");
    EXPECT_EQ(plan.cut.copies_tell, network == 1);
    EXPECT_EQ(plan.cut.waits_for_network, network == 1);
    EXPECT_EQ(plan.cut.message_time.count() > 0, network == 1);
    EXPECT_EQ(plan.cut.segment_time, 2 * 4 * plan.cut.message_time) << "four rounds";
  }
}

// A leader has one, and so half of what both hosts of two have.
TEST(CrowdedPlans, UseAllNics) {
  Shape shape = make_shape(layout_of({{2, 2}, {2}}), true);
  shape.cpus_per_rank = 2.0 / 4;
  const auto plan = [&] { return to_text(choose(shape, ECH_ALLREDUCE, 16 << 20).best.recipe); };
  EXPECT_EQ(plan(), "leader:native/ring@128KiB");
  shape.tiers[1].one_nic = kGigabit / 2;
  EXPECT_TRUE(plan().starts_with("native/ring@")) << plan();
  const double bytes = 64 << 20, least = 2 * bytes / kGigabit;
  EXPECT_NEAR(time_of(shape, "leader:native/ring@128KiB", ECH_ALLREDUCE, bytes), least,
              0.01 * least);
}

// A ring is about as good as halving and doubling there, and comes before it in the list.
TEST(CrowdedPlans, HaveNoRingOfFour) {
  Shape shape = make_shape(layout_of({{1, 1, 1, 1}, {4}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 4;
  const auto taken = [&](ech_collective collective) {
    return choose(shape, collective, 64 << 20).best.recipe.algorithms.back();
  };
  EXPECT_LT(quickest(shape, parse_recipe("ring"), 64 << 20),
            1.06 * quickest(shape, parse_recipe("halving_doubling"), 64 << 20));
  EXPECT_EQ(taken(ECH_ALLREDUCE), Algorithm::kHalvingDoubling);
  EXPECT_EQ(taken(ECH_REDUCE_SCATTER), Algorithm::kRing) << "as the list has it";
}

// Who sends to all or receives from all does half of the work of each of its bytes.
TEST(CrowdedPlans, CountOneEndOfWhatARootSends) {
  Shape shape = make_shape(layout_of({{1, 1, 1, 1, 1}, {5}, {}, 1e12}), true);
  shape.cpus_per_rank = 4.0 / 5;
  const double bytes = 64 << 20, root = 4 * bytes * 0.8e-9 / 2, all = 4 * bytes * 0.8e-9 / 4;
  EXPECT_NEAR(time_of(shape, "direct@128KiB", ECH_BROADCAST, bytes), root, 0.01 * root);
  EXPECT_NEAR(time_of(shape, "ring@128KiB", ECH_BROADCAST, bytes), all, 0.03 * all);
}

// A segment has a part of every block, and each is a message: four leaders send as many as all
// ranks.
TEST(CrowdedPlans, CountBlocksThatLieApart) {
  Shape shape = make_shape(layout_of({{2, 2, 2, 2}, {4}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 8;
  shape.crowded_wait = shape.message_overhead = 0;
  const double bytes = 16 << 20, further = 128 * 21;  // pieces: 3 for 24 messages in a segment
  for (const char* plan : {"native/ring@128KiB", "native/halving_doubling@128KiB",
                           "leader:native/ring@128KiB", "leader:native/halving_doubling@128KiB"})
    for (const ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER}) {
      shape.busy_message = 13e-6;
      const double time = time_of(shape, plan, c, bytes);
      shape.busy_message = 26e-6;
      EXPECT_NEAR(time_of(shape, plan, c, bytes) - time, further * 13e-6 / 2, 2e-4) << plan;
    }
}

// Three buffers in all, by two CPUs, whoever adds them.
TEST(CrowdedPlans, CountAdditionsOfAllRanks) {
  Shape shape = make_shape(layout_of({{2, 2, 2, 2}, {4}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 8;
  const double bytes = 64 << 20;
  for (const char* plan : {"native/ring@128KiB", "leader:native/binomial@128KiB"}) {
    shape.reduce_speed = 8e9;
    const double quick = time_of(shape, plan, ECH_ALLREDUCE, bytes);
    shape.reduce_speed = 4e9;
    const double more = 3 * bytes / 8e9 / 2;
    EXPECT_NEAR(time_of(shape, plan, ECH_ALLREDUCE, bytes) - quick, more, 0.02 * more) << plan;
  }
}

// Six CPUs are no help to two leaders, each of which sends a buffer and receives one.
TEST(CrowdedPlans, KeepARankToOneCpu) {
  Shape shape = make_shape(layout_of({{4, 4}, {2}, {}, 1e12}), true);
  shape.cpus_per_rank = 6.0 / 8;
  const double bytes = 64 << 20, own = bytes * 0.8e-9;
  EXPECT_GT(time_of(shape, "leader:native/ring@128KiB", ECH_ALLREDUCE, bytes), own);
  EXPECT_LT(time_of(shape, "native/ring@128KiB", ECH_ALLREDUCE, bytes), own);
}

// A segment of 128 KiB has 24 messages of 32 KiB, for bytes that fill six pieces. Two of half the
// size have 24 more for as many bytes.
TEST(CrowdedPlans, PayForMessagesOfLessThanAPiece) {
  Shape shape = make_shape(layout_of({{1, 1, 1, 1}, {4}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 4;
  shape.crowded_wait = shape.message_overhead = 0;
  shape.reduce_speed = 1e15;
  const auto time = [&](const char* plan) {
    return time_of(shape, plan, ECH_ALLREDUCE, 128 << 20);
  };
  const double whole = time("ring@128KiB"), further = 1024 * 24;
  EXPECT_NEAR(whole, 6 * (128 << 20) * 0.8e-9 / 2 + 1024 * 18 * 13e-6 / 2, 0.01 * whole);
  EXPECT_NEAR(time("ring@64KiB") - whole, further * 13e-6 / 2, 0.01 * whole);
}

// A tenth for a doubling, as far as 1 MiB.
TEST(CrowdedPlans, PayMoreForBytesOutOfTheCache) {
  Shape shape = make_shape(layout_of({{1, 1, 1}, {3}, {}, 1e12}), true);
  shape.cpus_per_rank = 2.0 / 3;
  shape.crowded_wait = shape.busy_message = shape.message_overhead = 0;
  shape.reduce_speed = 1e15;
  const double bytes = 256 << 20, all = 4 * bytes * 0.8e-9 / 2;
  const auto time = [&](const char* plan) { return time_of(shape, plan, ECH_ALLREDUCE, bytes); };
  EXPECT_NEAR(time("ring@256KiB"), all, 0.01 * all);
  EXPECT_NEAR(time("ring@512KiB"), 1.1 * all, 0.01 * all);
  EXPECT_NEAR(time("ring@2MiB"), 1.2 * all, 0.01 * all);
}

// There a rank's own work, with messages and additions, can be the limit, too.
TEST(CrowdedPlans, AreNotThoseOfQuickNetworks) {
  const Shape shape = make_shape(flat_cluster(4, 1, 50e9), true);
  for (double bytes = 4 << 20; bytes <= 256 << 20; bytes *= 2) {
    const Choice c = choose(shape, ECH_ALLREDUCE, bytes, parse_recipe("ring"));
    EXPECT_EQ(c.best.prediction.busiest, "the processors");
    EXPECT_LE(c.best.prediction.seconds, 1.02 * c.best.quickest) << to_text(c.best.recipe);
  }
}

TEST(CrowdedPlans, StayAboveTheBound) {
  for (const LinkKind kind : {LinkKind::kShm, LinkKind::kNvlink})
    for (const double cpus : {0.2, 0.5, 0.9}) {
      Shape shape = make_shape(layout_of({{4, 4}, {2}}), true);
      shape.tiers[0].link.kind = kind;
      shape.cpus_per_rank = cpus;
      if (kind == LinkKind::kNvlink) shape.joint_call = shape.tiers[1].link;
      for (const ech_collective c : kCollectives)
        for (const Recipe& recipe : candidates(shape, c))
          for (const double bytes : {16 << 10, 16 << 20})
            EXPECT_LE(lower_bound(shape, c, bytes).seconds,
                      predict(shape, recipe, c, bytes).seconds * (1 + 1e-9))
                << to_text(recipe) << ' ' << name(c) << ' ' << bytes << ' ' << cpus;
    }
}

}  // namespace
}  // namespace echelon
