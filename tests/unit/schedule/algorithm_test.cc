// SPDX-License-Identifier: Apache-2.0
// Every algorithm does every collective it supports, for 1 to 17 ranks.
#include "algorithms/algorithm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/schedule/verify.h"
#include "tests/unit/schedule/sent.h"
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

Sent sent_by(Algorithm algorithm, GroupAction action, const Shares& shares) {
  const int n = static_cast<int>(shares.size());
  Schedule schedule(12 * n);
  add_collective(schedule, 0, algorithm, action, Group::range(n), shares);
  return sent(schedule);
}

// Of n members who own as much as each other, and of whom the last owns all.
std::vector<Sent> all_sent(Algorithm algorithm, GroupAction action, int n) {
  const Slice whole = {0, static_cast<Unit>(12 * n)};
  Shares even(n), one_owner(n);
  for (int i = 0; i < n; ++i) even[i] = {whole.part(i, n)};
  one_owner.back() = {whole};
  std::vector<Sent> sent = {sent_by(algorithm, action, even)};
  if (action != GroupAction::kAllreduce && serves_one_owner(algorithm))
    sent.push_back(sent_by(algorithm, action, one_owner));
  return sent;
}

bool one_begins_with_the_other(const std::vector<Sent>& a, const std::vector<Sent>& b) {
  return std::equal(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin());
}

TEST(Algorithm, RepeatsAnotherThatSendsTheSame) {
  for (const GroupAction action :
       {GroupAction::kReduceScatter, GroupAction::kAllgather, GroupAction::kAllreduce})
    for (int n = 2; n <= 9; ++n)
      for (const Algorithm algorithm : kAllAlgorithms) {
        if (algorithm == Algorithm::kNative || !supports(algorithm, action)) continue;
        bool earlier = false;
        for (const Algorithm other : kAllAlgorithms) {
          if (other == algorithm) break;
          if (other == Algorithm::kNative || !supports(other, action)) continue;
          earlier |=
              one_begins_with_the_other(all_sent(algorithm, action, n), all_sent(other, action, n));
        }
        EXPECT_EQ(repeats_another(algorithm, action, n), earlier)
            << name(algorithm) << ' ' << n << ' ' << static_cast<int>(action);
      }
}

TEST(Algorithm, NamesParseBack) {
  for (const Algorithm a : kAllAlgorithms) EXPECT_EQ(parse_algorithm(name(a)), a);
  EXPECT_FALSE(parse_algorithm("rnig"));
}

}  // namespace
}  // namespace echelon
