// SPDX-License-Identifier: Apache-2.0
// Every algorithm does every collective it supports, for 1 to 17 ranks.
#include "algorithms/algorithm.h"

#include <gtest/gtest.h>

#include "lib/schedule/verify.h"
#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

class Flat : public testing::TestWithParam<std::tuple<Algorithm, int>> {
 protected:
  Algorithm algorithm() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
};

TEST_P(Flat, ComputesWhatItSupports) {
  for (const ech_collective collective :
       {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE}) {
    const bool all = collective == ECH_ALLREDUCE;
    if (!supports(algorithm(), all ? GroupAction::kAllreduce : GroupAction::kAllgather)) continue;
    for (const int root : {0, size() / 2, size() - 1}) {
      Composition what = flat(collective, size(), algorithm());
      what.root = root;
      for (const Ownership o : {Ownership::kSplit, Ownership::kLeader}) {
        what.ownership = o;
        EXPECT_EQ(verify(compose(what), collective, size(), root), "") << text(what);
      }
    }
  }
}

TEST_P(Flat, TakesUnevenShares) {
  const int n = size();
  const Slice whole = {0, static_cast<Unit>(n * n)};
  Shares shares(n);  // dealt out backwards, and none for every third member
  for (int i = 0, owner = 0; i < n; ++i) {
    owner = (owner + (n > 2 && owner % 3 == 0 ? 2 : 1)) % n;
    shares[n - 1 - owner].push_back(whole.part(i, n));
  }
  for (Slices& s : shares) s = merged(s);
  Schedule s(whole.size());
  add_collective(s, 0, algorithm(), GroupAction::kAllreduce, Group::range(n), shares);
  EXPECT_EQ(verify(s, ECH_ALLREDUCE, n), "");
  if (!supports(algorithm(), GroupAction::kReduceScatter)) return;
  Schedule both(whole.size());
  const int step =
      add_collective(both, 0, algorithm(), GroupAction::kReduceScatter, Group::range(n), shares);
  add_collective(both, step, algorithm(), GroupAction::kAllgather, Group::range(n), shares);
  EXPECT_EQ(verify(both, ECH_ALLREDUCE, n), "");
}

INSTANTIATE_TEST_SUITE_P(All, Flat,
                         testing::Combine(testing::ValuesIn(kAllAlgorithms), testing::Range(1, 18)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name(std::get<0>(info.param)),
                                              std::get<1>(info.param));
                         });

TEST(Algorithm, NamesParseBack) {
  for (const Algorithm a : kAllAlgorithms) EXPECT_EQ(parse_algorithm(name(a)), a);
  EXPECT_FALSE(parse_algorithm("rnig"));
}

}  // namespace
}  // namespace echelon
