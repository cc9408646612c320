// SPDX-License-Identifier: Apache-2.0
// Right sums at the wrong price are a bug too: what headers state is counted here.
#include "lib/schedule/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "lib/schedule/verify.h"
#include "tests/support/ranks.h"
#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

constexpr GroupAction kActions[] = {GroupAction::kReduceScatter, GroupAction::kAllgather,
                                    GroupAction::kAllreduce};

Cost counted(const Schedule& s, int rounds, int n) {
  const std::vector<Traffic> members = traffic(s, n);
  const Traffic most = busiest(members);
  double in_all = 0, sent = 0, added = 0, handled = 0;
  for (const Traffic& member : members) {
    in_all += member.messages;
    sent += static_cast<double>(member.sent);
    added += member.reduced;
    handled = std::max(handled, member.sent + member.received);
  }
  const double buffer = static_cast<double>(s.units());
  return {.rounds = rounds,
          .moved = std::max(most.sent, most.received) / buffer,
          .reduced = most.reduced / buffer,
          .messages = std::max(most.messages, most.arrivals),
          .in_all = in_all,
          .sent = sent / buffer,
          .added = added / buffer,
          .handled = handled / buffer};
}

void expect_alike(const Cost& counted, const Cost& stated, const std::string& what) {
  EXPECT_EQ(counted.rounds, stated.rounds) << what;
  EXPECT_NEAR(counted.moved, stated.moved, 1e-9) << what;
  EXPECT_NEAR(counted.reduced, stated.reduced, 1e-9) << what;
  EXPECT_EQ(counted.messages, stated.messages) << what;
  EXPECT_EQ(counted.in_all, stated.in_all) << what;
  EXPECT_NEAR(counted.sent, stated.sent, 1e-9) << what;
  EXPECT_NEAR(counted.added, stated.added, 1e-9) << what;
  EXPECT_NEAR(counted.handled, stated.handled, 1e-9) << what;
}

TEST(Cost, EveryAlgorithmCostsWhatItsHeaderStates) {
  for (const Algorithm algorithm : kAllAlgorithms)
    for (const GroupAction action : kActions)
      for (int n = 1; n <= 33; ++n) {
        if (!supports(algorithm, action)) continue;
        const auto units = static_cast<Unit>(2 * n) * std::bit_floor(static_cast<unsigned>(n));
        Schedule s(units);
        const int rounds =
            add_collective(s, 0, algorithm, action, Group::range(n), even_shares(s.whole(), n));
        const std::string what = fmt::format("{} {} {}", name(algorithm), name(action), n);
        EXPECT_EQ(s.steps(), rounds) << what;
        expect_alike(counted(s, rounds, n), cost(algorithm, action, n), what);
      }
}

TEST(Cost, OneOwnerCostsWhatItsHeaderStates) {
  int served = 0;
  for (const Algorithm algorithm : kAllAlgorithms)
    for (const GroupAction action : {GroupAction::kReduceScatter, GroupAction::kAllgather})
      for (int n = 1; n <= 33; ++n) {
        if (!serves_one_owner(algorithm)) continue;
        ++served;
        Schedule s(64);
        const int rounds =
            add_collective(s, 0, algorithm, action, Group::range(n), all_to(n / 2, {s.whole()}, n));
        Cost counts = counted(s, rounds, n);
        // Who owns the bytes that a group call spreads has nothing to do for it.
        if (algorithm == Algorithm::kNative && action == GroupAction::kAllgather)
          counts.moved = counts.handled = busiest(traffic(s, n)).received / 64;
        expect_alike(counts, cost_of_one_owner(algorithm, action, n),
                     fmt::format("{} {} {}", name(algorithm), name(action), n));
      }
  EXPECT_EQ(served, 4 * 2 * 33);
}

struct Expectation {
  std::vector<std::vector<int>> shape;
  int tier;          // its children are the domains
  double allreduce;  // buffers out of, and into, each domain
};

std::vector<int> domains(const std::vector<Group>& groups, int size) {
  std::vector<int> of_rank(size);
  for (std::size_t d = 0; d < groups.size(); ++d)
    for (const int rank : groups[d].ranks()) of_rank[rank] = static_cast<int>(d);
  return of_rank;
}

// Every host, however many ranks it has, sends 2(H-1)/H of the buffer and no more; likewise racks.
TEST(Cost, HierarchyLoadsEveryHostEqually) {
  const Expectation kCases[] = {
      {{{3, 1, 2}, {3}}, 0, 2 * 2.0 / 3}, {{{2, 2, 2, 2}, {4}}, 0, 1.5},
      {{{1, 1, 5}, {3}}, 0, 2 * 2.0 / 3}, {{{2, 2, 2, 2}, {2, 2}, {2}}, 1, 1.0},
      {{{3, 1, 2}, {2, 1}, {2}}, 1, 1.0}, {{{1, 2, 3, 4, 5}, {2, 2, 1}, {3}}, 1, 2 * 2.0 / 3},
  };
  for (const Expectation& c : kCases)
    for (const Algorithm inner : {Algorithm::kNative, Algorithm::kRing}) {
      const auto groups = tiers(c.shape);
      std::vector<Algorithm> algorithms(groups.size(), Algorithm::kRing);
      algorithms[0] = inner;
      const Composition what = composition(ECH_ALLREDUCE, groups, algorithms);
      const Schedule s = compose(what);
      for (const CutTraffic& cut : cut_traffic(s, domains(groups[c.tier], what.size))) {
        EXPECT_NEAR(cut.out / static_cast<double>(s.units()), c.allreduce, 1e-9) << text(what);
        EXPECT_NEAR(cut.in / static_cast<double>(s.units()), c.allreduce, 1e-9) << text(what);
      }
    }
}

// Hosts whose divisions have no small common unit: parts are equal but for a unit in 2^40.
TEST(Cost, WithoutACommonUnitPartsAreNearlyEqual) {
  const auto groups = tiers({{25, 27, 16, 7, 11, 13, 17, 19, 23, 29}, {10}});
  const Composition what =
      composition(ECH_ALLREDUCE, groups, {Algorithm::kNative, Algorithm::kDirect});
  const Schedule s = compose(what);
  EXPECT_EQ(s.units(), Unit{1} << 40);
  EXPECT_EQ(verify(s, ECH_ALLREDUCE, what.size), "");
  for (const CutTraffic& cut : cut_traffic(s, domains(groups[0], what.size)))
    EXPECT_NEAR(cut.out / static_cast<double>(s.units()), 1.8, 1e-8);
}

// Each rank on a host of equal ones carries an equal part of the host's load.
TEST(Cost, RailsShareAHostsLoad) {
  const auto groups = tiers({{3, 1, 2}, {3}});
  const Schedule s =
      compose(composition(ECH_ALLREDUCE, groups, {Algorithm::kNative, Algorithm::kRing}));
  const std::vector<int> hosts = domains(groups[0], 6);
  std::vector<double> sent(6);
  for (const Transfer& t : s.transfers()) sent[t.from] += static_cast<double>(t.slice.size());
  const double host = 4.0 / 3 * static_cast<double>(s.units());
  const double expected[] = {host / 3, host / 3, host / 3, host, host / 2, host / 2};
  for (int rank = 0; rank < 6; ++rank) EXPECT_DOUBLE_EQ(sent[rank], expected[rank]) << rank;
}

// Out of each host H-1 of H blocks (reduce-scatter), or its own to everybody (allgather).
TEST(Cost, BlocksCrossTheNetworkOnce) {
  const auto groups = tiers({{2, 2, 2, 2}, {4}});
  for (const ech_collective collective : {ECH_REDUCE_SCATTER, ECH_ALLGATHER}) {
    const Schedule s =
        compose(composition(collective, groups, {Algorithm::kNative, Algorithm::kRing}));
    for (const CutTraffic& cut : cut_traffic(s, domains(groups[0], 8)))
      EXPECT_DOUBLE_EQ(cut.out, 6) << name(collective);                       // of 8 blocks
    for (const Transfer& t : s.transfers()) EXPECT_EQ(t.from % 2, t.to % 2);  // straight rails
  }
}

// Unequal hosts: a host's NIC carries no more than what its ranks and the others' need.
TEST(Cost, UnequalBlocksAreDealtEvenly) {
  const auto groups = tiers({{3, 1, 2}, {3}});
  const Schedule s =
      compose(composition(ECH_REDUCE_SCATTER, groups, {Algorithm::kNative, Algorithm::kDirect}));
  const std::vector<CutTraffic> cuts = cut_traffic(s, domains(groups[0], 6));
  EXPECT_DOUBLE_EQ(cuts[0].out, 3);  // of 6 blocks, all but its own
  EXPECT_DOUBLE_EQ(cuts[1].out, 5);
  EXPECT_DOUBLE_EQ(cuts[2].out, 4);
  std::vector<double> sent(6);
  for (const Transfer& t : s.transfers()) sent[t.from] += static_cast<double>(t.slice.size());
  EXPECT_EQ(sent, (std::vector<double>{1, 1, 1, 5, 2, 2}));
}

// A broadcast puts the buffer on every network link once.
TEST(Cost, SplitBroadcastUsesAllRails) {
  const auto groups = tiers({{2, 2, 2}, {3}});
  Composition what = composition(ECH_BROADCAST, groups, {Algorithm::kNative, Algorithm::kRing});
  const Schedule s = compose(what);
  const auto buffer = static_cast<double>(s.units());
  const std::vector<CutTraffic> cuts = cut_traffic(s, domains(groups[0], 6));
  EXPECT_DOUBLE_EQ(cuts[0].out, buffer);
  EXPECT_DOUBLE_EQ(cuts[0].in, 0);
  EXPECT_DOUBLE_EQ(cuts[1].in, buffer);
  for (const Transfer& t : s.transfers())
    EXPECT_DOUBLE_EQ(static_cast<double>(t.slice.size()), buffer / 2);
}

// Few, large transfers: on equal hosts a rail is one slice per member and step.
TEST(Cost, EqualHostsSendOneMessagePerRoundAndRail) {
  const Schedule s = compose(composition(ECH_ALLREDUCE, tiers({{2, 2, 2, 2}, {4}}),
                                         {Algorithm::kNative, Algorithm::kRing}));
  for (const Traffic& t : traffic(s, 8)) EXPECT_EQ(t.messages, 6);
}

double seconds(const Composition& what, int viewer) {
  const auto start = std::chrono::steady_clock::now();
  const Schedule s = compose(what, viewer);
  EXPECT_GT(s.steps(), 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Loose bounds, for busy machines; they catch work that is quadratic by mistake.
TEST(Cost, BuildingIsQuick) {
  EXPECT_LT(seconds(flat(ECH_ALLREDUCE, 256, Algorithm::kRing), Schedule::kEveryone),
            2 * test::kSlowness);
  const auto groups = tiers({std::vector<int>(2048, 8), {2048}});
  for (const ech_collective collective :
       {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST})
    EXPECT_LT(
        seconds(composition(collective, groups, {Algorithm::kNative, Algorithm::kRing}), 4711),
        5 * test::kSlowness)
        << name(collective);
}

}  // namespace
}  // namespace echelon
