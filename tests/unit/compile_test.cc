// SPDX-License-Identifier: Apache-2.0
// What members of a group call must agree on without asking each other.
#include <gtest/gtest.h>

#include "lib/engine/program.h"
#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

constexpr ech_collective kCollectives[] = {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER,
                                           ECH_BROADCAST, ECH_REDUCE};

Program program_of(const Composition& what, int rank) {
  return compile(compose(what, rank), {what.collective, rank, what.size, what.root}, false);
}

TEST(Compile, WhatOneHostDoesIsOneCall) {
  for (const ech_collective c : kCollectives)
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(program_of(flat(c, 4, Algorithm::kNative), rank).one_call) << name(c);
}

// Of five ranks of a host most have no message, and one call each. The others' input is elsewhere
// by then.
TEST(Compile, WhatIsOneCallForSomeIsNone) {
  for (const ech_collective c : kCollectives) {
    const Composition what =
        composition(c, tiers({{5, 1}, {2}}), {Algorithm::kNative, Algorithm::kRing});
    for (int rank = 0; rank < what.size; ++rank)
      EXPECT_FALSE(program_of(what, rank).one_call) << name(c) << " rank " << rank;
  }
}

TEST(Compile, WhoOnlyGivesToAReduceNeedsNoMemory) {
  for (int rank = 0; rank < 4; ++rank) {
    Composition what = flat(ECH_REDUCE, 4, Algorithm::kNative);
    what.root = 2;
    const Program program = program_of(what, rank);
    EXPECT_FALSE(program.needs_scratch(rank == what.root)) << rank;
    EXPECT_EQ(program.writes_work, rank == what.root) << rank;
  }
  for (int rank = 0; rank < 4; ++rank)  // 1 begins the ring, 2 and 3 add to what passes
    EXPECT_EQ(program_of(flat(ECH_REDUCE, 4, Algorithm::kRing), rank).needs_scratch(rank == 0),
              rank >= 2)
        << rank;
}

TEST(Compile, GatheredBlocksAreInWorkOnAllMembers) {
  for (const ech_collective c : {ECH_REDUCE_SCATTER, ECH_ALLGATHER}) {
    Composition what =
        composition(c, tiers({{3, 1, 2}, {3}}), {Algorithm::kNative, Algorithm::kRing});
    what.ownership = Ownership::kLeader;
    int gathers = 0;
    for (int rank = 0; rank < what.size; ++rank)
      for (const Step& step : program_of(what, rank).steps)
        for (const Call& call : step.calls) {
          if (call.action != GroupAction::kAllgather) continue;
          EXPECT_EQ(call.place, Place::kWork) << name(c) << " rank " << rank;
          ++gathers;
        }
    EXPECT_EQ(gathers, c == ECH_ALLGATHER ? 10 : 5) << name(c);
  }
}

}  // namespace
}  // namespace echelon
