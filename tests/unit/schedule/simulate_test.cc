// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/simulate.h"

#include <gtest/gtest.h>

#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

constexpr double kLatency = 10e-6, kNic = 1e8;

// Hosts with one NIC each; infinitely fast inside.
Machines cluster(const std::vector<int>& ranks_of_host) {
  SharedMedium nic;
  for (std::size_t h = 0; h < ranks_of_host.size(); ++h) {
    nic.bytes_per_second.push_back(kNic);
    nic.domain_of_rank.insert(nic.domain_of_rank.end(), ranks_of_host[h], static_cast<int>(h));
  }
  Machines m;
  m.size = static_cast<int>(nic.domain_of_rank.size());
  m.link = [of = nic.domain_of_rank](int from, int to) {
    Link link;
    link.latency = of[from] == of[to] ? 0 : kLatency;
    link.bytes_per_second = of[from] == of[to] ? 0 : 1e12;
    return link;
  };
  m.shared.push_back(nic);
  return m;
}

TEST(Simulate, RingTakesItsFormula) {
  const Schedule s = compose(flat(ECH_ALLREDUCE, 8, Algorithm::kRing));
  const Machines m = cluster(std::vector<int>(8, 1));
  const double bytes = 1e6;
  EXPECT_NEAR(simulate(s, bytes, m), 14 * (kLatency + bytes / 8 / kNic), 1e-9);
}

TEST(Simulate, DirectSharesTheNic) {
  const Schedule s = compose(flat(ECH_ALLREDUCE, 4, Algorithm::kDirect));
  const double bytes = 1e6;
  EXPECT_NEAR(simulate(s, bytes, cluster({1, 1, 1, 1})), 2 * (kLatency + 0.75 * bytes / kNic),
              1e-9);
}

TEST(Simulate, ReductionTakesTime) {
  const Schedule s = compose(flat(ECH_REDUCE, 2, Algorithm::kBinomial));
  Machines m = cluster({1, 1});
  m.reduce_bytes_per_second = 1e9;
  EXPECT_NEAR(simulate(s, 1e6, m), kLatency + 1e6 / kNic + 1e6 / 1e9, 1e-9);
}

// 3+1+2 ranks, three NICs: the bound is 2(H-1)/H of the buffer through each.
TEST(Simulate, UnequalHostsMeetTheBound) {
  const auto groups = tiers({{3, 1, 2}, {3}});
  const Machines m = cluster({3, 1, 2});
  const double bytes = 64e6, bound = 4.0 / 3 * bytes / kNic;
  const double hierarchy =
      simulate(compose(composition(ECH_ALLREDUCE, groups, {Algorithm::kNative, Algorithm::kRing})),
               bytes, m);
  EXPECT_GE(hierarchy, bound);
  EXPECT_LT(hierarchy, 1.01 * bound);
  EXPECT_GT(simulate(compose(flat(ECH_ALLREDUCE, 6, Algorithm::kRing)), bytes, m), hierarchy);
}

TEST(Simulate, SmallMessagesWantFewRounds) {
  const Machines m = cluster(std::vector<int>(16, 1));
  const auto time = [&m](Algorithm a) {
    return simulate(compose(flat(ECH_ALLREDUCE, 16, a)), 8, m);
  };
  EXPECT_LT(time(Algorithm::kRecursiveDoubling), time(Algorithm::kHalvingDoubling));
  EXPECT_LT(time(Algorithm::kHalvingDoubling), time(Algorithm::kRing));
}

TEST(Simulate, NothingToDoTakesNoTime) {
  EXPECT_EQ(simulate(compose(flat(ECH_ALLREDUCE, 1, Algorithm::kRing)), 1e6, cluster({1})), 0);
}

}  // namespace
}  // namespace echelon
