// SPDX-License-Identifier: Apache-2.0
// The verifier must be able to say no.
#include "lib/schedule/verify.h"

#include <gtest/gtest.h>

#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

TEST(Verify, RejectsDoubleCounting) {
  Schedule s(1);
  for (const int step : {0, 2}) {
    s.reduce(step, 0, 1, {0, 1});
    s.copy(step + 1, 1, 0, {0, 1});
  }
  EXPECT_EQ(verify(s, ECH_ALLREDUCE, 2),
            "allreduce: rank 0 has the input of rank 0 2 times in units [0, 1)");
}

TEST(Verify, LetsTwoRanksExchangeAndAdd) {
  Schedule s(1);
  s.reduce(0, 0, 1, {0, 1});
  s.reduce(0, 1, 0, {0, 1});
  EXPECT_EQ(verify(s, ECH_ALLREDUCE, 2), "");
}

TEST(Verify, RejectsACopyOntoWhatIsSent) {
  Schedule s(1);
  s.copy(0, 0, 1, {0, 1});
  s.copy(0, 1, 2, {0, 1});
  EXPECT_EQ(verify(s, ECH_REDUCE, 3), "step 0: rank 1 sends and overwrites units [0, 1)");
}

TEST(Verify, RejectsTwoWrites) {
  Schedule s(2);
  s.copy(0, 0, 2, {0, 2});
  s.copy(0, 1, 2, {1, 2});
  EXPECT_EQ(verify(s, ECH_REDUCE, 3), "step 0: rank 2 is written twice in units [1, 2)");
}

TEST(Verify, RejectsSumsOfOverlappingSlices) {
  Schedule s(2);
  s.reduce(0, 0, 2, {0, 2});
  s.reduce(0, 1, 2, {1, 2});
  EXPECT_EQ(verify(s, ECH_REDUCE, 3, 2),
            "step 0: rank 2 adds two overlapping slices to units [1, 2)");
}

TEST(Verify, RejectsSendingWhatIsNotThere) {
  Schedule s(1);
  s.copy(0, 1, 2, {0, 1});
  s.copy(0, 0, 1, {0, 1});
  EXPECT_EQ(verify(s, ECH_BROADCAST, 3), "step 0: rank 1 sends but does not have units [0, 1)");
}

TEST(Verify, RejectsATransferIntoAGroupCall) {
  Schedule s(1);
  s.add(GroupCall{0, GroupAction::kAllreduce, Group({0, 1}), {{{0, 1}, 0}}});
  s.copy(0, 2, 1, {0, 1});
  EXPECT_EQ(verify(s, ECH_REDUCE, 3), "step 0: rank 1 has a group call and more in units [0, 1)");
}

// Complete sums, but (a + b) + c on even ranks and a + (b + c) on odd ones.
TEST(Verify, RejectsOtherBitsOnAnotherRank) {
  Schedule s(1);
  const Slice all = s.whole();
  for (int rank = 0; rank < 6; ++rank) s.reduce(0, rank, rank ^ 1, all);
  s.reduce(1, 2, 0, all);
  s.reduce(2, 4, 0, all);
  s.reduce(1, 5, 3, all);
  s.reduce(2, 3, 1, all);
  for (const int rank : {2, 4}) s.copy(3, 0, rank, all);
  for (const int rank : {3, 5}) s.copy(3, 1, rank, all);
  EXPECT_EQ(verify(s, ECH_ALLREDUCE, 6),
            "allreduce: rank 1 has other bits than rank 0 in units [0, 1)");
}

TEST(Verify, RejectsMalformedSchedules) {
  const auto fault = [](Transfer t) {
    Schedule s(4);
    s.add(t);
    return verify(s, ECH_ALLREDUCE, 2);
  };
  EXPECT_EQ(fault({0, 0, 0, {0, 4}, Action::kCopy}),
            "malformed transfer: step 0 from 0 to 0 units [0, 4)");
  EXPECT_NE(fault({-1, 0, 1, {0, 4}, Action::kCopy}), "");
  EXPECT_NE(fault({0, 0, 2, {0, 4}, Action::kCopy}), "");
  EXPECT_NE(fault({0, 0, 1, {0, 5}, Action::kCopy}), "");
  EXPECT_NE(fault({0, 0, 1, {3, 2}, Action::kCopy}), "");
  EXPECT_NE(verify(Schedule(4, 0), ECH_ALLREDUCE, 2), "");
  EXPECT_NE(verify(Schedule(4), ECH_ALLREDUCE, 2), "");
  EXPECT_NE(verify(Schedule(4), ECH_BARRIER, 2), "");
  EXPECT_NE(verify(Schedule(4), ECH_BROADCAST, 2, 2), "");
}

}  // namespace
}  // namespace echelon
