// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/turns.h"

#include <gtest/gtest.h>

#include <set>

namespace echelon {
namespace {

// Every turn is taken once, and none waits for a later one.
void expect_order(std::uint64_t segments, std::uint64_t calls, std::uint64_t lanes) {
  SCOPED_TRACE(testing::Message() << segments << " segments, " << calls << " calls, " << lanes
                                  << " lanes");
  const Turns turns(segments, calls, lanes);
  std::set<std::uint64_t> seen;
  for (std::uint64_t s = 0; s < segments; ++s) {
    for (std::uint64_t c = 0; c < calls; ++c) {
      const std::uint64_t turn = turns.of(s, c);
      EXPECT_LT(turn, turns.count());
      EXPECT_TRUE(seen.insert(turn).second) << "segment " << s << " call " << c;
      if (c > 0) {
        EXPECT_LT(turns.of(s, c - 1), turn);
      }
    }
    if (s >= lanes) {
      EXPECT_LT(turns.of(s - lanes, calls - 1), turns.of(s, 0));
    }
  }
}

TEST(Turns, AreAPermutationThatRespectsTheLanes) {
  for (std::uint64_t calls : {1, 2, 3, 5})
    for (std::uint64_t lanes : {1, 2, 3, 8})
      for (std::uint64_t segments = 1; segments < 40; ++segments)
        expect_order(segments, calls, lanes);
}

// The reduce-scatter of a new segment does not wait for more than the allgather before it.
TEST(Turns, ReplaceALaneAtATime) {
  const Turns turns(6, 2, 2);
  const std::uint64_t expected[6][2] = {{0, 2}, {1, 4}, {3, 6}, {5, 8}, {7, 10}, {9, 11}};
  for (std::uint64_t s = 0; s < 6; ++s)
    for (std::uint64_t c = 0; c < 2; ++c)
      EXPECT_EQ(turns.of(s, c), expected[s][c]) << s << ' ' << c;
}

}  // namespace
}  // namespace echelon
