// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/schedule.h"

#include <gtest/gtest.h>

#include "algorithms/shares.h"

namespace echelon {
namespace {

TEST(Slice, PartsAreDisjointOrderedAndCoverTheWhole) {
  for (const Unit length : {Unit{0}, Unit{1}, Unit{7}, Unit{64}, ~Unit{0} - 5})
    for (const Unit n : {Unit{1}, Unit{3}, Unit{17}, Unit{1} << 40}) {
      const Slice whole = {5, 5 + length};
      EXPECT_EQ(whole.part(0, n).begin, whole.begin);
      EXPECT_EQ(whole.part(n - 1, n).end, whole.end);
      for (const Unit i : {Unit{0}, n / 2, n - 2})
        if (i + 1 < n) {
          EXPECT_EQ(whole.part(i, n).end, whole.part(i + 1, n).begin);
          EXPECT_LE(whole.part(i, n).size() - length / n, 1u);
        }
    }
}

TEST(Slice, OverlapAndContainment) {
  EXPECT_TRUE((Slice{0, 4}.overlaps({3, 5})));
  EXPECT_FALSE((Slice{0, 4}.overlaps({4, 5})));
  EXPECT_TRUE((Slice{0, 4}.contains({1, 4})));
  EXPECT_FALSE((Slice{0, 4}.contains({1, 5})));
}

TEST(Group, IndicesWrapAround) {
  const Group g({7, 5, 3});
  EXPECT_EQ(g[3], 7);
  EXPECT_EQ(g[-1], 3);
  EXPECT_EQ(g.wrap(-4), 2);
  EXPECT_EQ(g.index_of(5), 1);
  EXPECT_EQ(g.index_of(4), -1);
  EXPECT_EQ(Group::range(3), Group({0, 1, 2}));
}

TEST(Schedule, KeepsWhatTheViewerTakesPartIn) {
  Schedule s(4, /*viewer=*/1);
  s.copy(0, 0, 1, {0, 4});
  s.copy(1, 0, 2, {0, 4});
  s.reduce(2, 1, 2, std::vector<Slice>{{0, 1}, {2, 2}, {3, 4}});  // one is empty
  s.add(GroupCall{3, GroupAction::kAllreduce, Group({0, 2}), {{{0, 4}, 0}}});
  EXPECT_EQ(s.transfers().size(), 3u);
  EXPECT_EQ(s.calls().size(), 0u);
  EXPECT_EQ(s.steps(), 3);
  s.add(GroupCall{3, GroupAction::kAllreduce, Group({0, 1}), {{{0, 4}, 0}}});
  s.add(GroupCall{4, GroupAction::kAllreduce, Group({0, 1}), {}});
  s.add(GroupCall{5, GroupAction::kAllreduce, Group({1}), {{{0, 4}, 1}}});
  EXPECT_EQ(s.calls().size(), 1u);
  EXPECT_EQ(s.steps(), 4);
}

TEST(Shares, AreCutAcrossSlices) {
  EXPECT_EQ(divide({{0, 2}, {4, 8}}, 3), (Shares{{{0, 2}}, {{4, 6}}, {{6, 8}}}));
  EXPECT_EQ(divide({{0, 3}, {4, 7}}, 2), (Shares{{{0, 3}}, {{4, 7}}}));
  EXPECT_EQ(divide({{0, 1}, {4, 5}, {6, 8}}, 2), (Shares{{{0, 1}, {4, 5}}, {{6, 8}}}));
  EXPECT_EQ(divide({{0, 1}}, 3), (Shares{{}, {}, {{0, 1}}}));  // fewer units than members
  EXPECT_EQ(divide({}, 2), (Shares{{}, {}}));
  EXPECT_EQ(even_shares({0, 4}, 2), (Shares{{{0, 2}}, {{2, 4}}}));
}

TEST(Shares, MergeWhatIsAdjacent) {
  EXPECT_EQ(merged({{4, 6}, {0, 2}, {3, 3}, {2, 4}, {8, 9}}), (Slices{{0, 6}, {8, 9}}));
  EXPECT_EQ(united({{{0, 1}}, {{2, 3}}, {{1, 2}}}), (Slices{{0, 3}}));
}

}  // namespace
}  // namespace echelon
