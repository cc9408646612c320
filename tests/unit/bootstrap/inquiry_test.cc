// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/inquiry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace echelon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string name(int rank) { return fmt::format("rank {}", rank); }

Signature sum_of(std::uint64_t count) {
  Signature s;
  s.collective = ECH_ALLREDUCE;
  s.dtype = ECH_FLOAT32;
  s.count = count;
  return s;
}

// A rank that has ended `ended` calls of 8 elements and is in one of `count`, if any.
Snapshot after(std::uint64_t ended, std::optional<std::uint64_t> count, std::uint32_t segment = 0) {
  Snapshot s;
  for (std::uint64_t k = 0; k < ended; ++k) s.calls.push_back({k, sum_of(8), false});
  if (count) s.calls.push_back({ended, sum_of(*count), true, 9, segment});
  s.entered = s.calls.size();
  return s;
}

TEST(Compare, NobodyWaits) {
  const Comparison c = compare({after(3, {}), after(2, {})}, name);
  EXPECT_EQ(c.mismatch, "");
  EXPECT_EQ(c.waiting, "");
}

TEST(Compare, OneIsLate) {
  const Comparison c = compare({after(3, 8), after(3, {}), after(3, 8)}, name);
  EXPECT_EQ(c.mismatch, "");
  EXPECT_EQ(c.waiting,
            "allreduce #3: waiting for rank 1; it is outside any call, last in allreduce #2");
}

TEST(Compare, OneIsStillInAnEarlierCall) {
  const Comparison c = compare({after(4, 8), after(3, 8, 2), after(4, 8)}, name);
  EXPECT_EQ(c.waiting,
            "allreduce #3: every rank has entered it; rank 1 is in allreduce #3, segment 3 of 9");
}

TEST(Compare, ManyAreLate) {
  std::vector<Snapshot> reports(8, after(0, {}));
  reports[2] = after(0, 8);
  EXPECT_EQ(compare(reports, name).waiting, "allreduce #0: waiting for ranks 0, 1 and 3-7");
}

TEST(Compare, TheMinorityIsNamed) {
  const std::vector<Snapshot> reports{after(1, 8), after(1, 9), after(1, 8), after(1, 8)};
  EXPECT_EQ(compare(reports, name).mismatch,
            "allreduce #1: rank 1 entered with count 9, 3 others with count 8");
}

TEST(Compare, TwoRanksDisagree) {
  EXPECT_EQ(compare({after(0, 8), after(0, 9)}, name).mismatch,
            "allreduce #0: rank 1 entered with count 9, rank 0 with count 8");
}

TEST(Compare, DifferentCallsAreNamed) {
  std::vector<Snapshot> reports{after(1, 8), after(1, 8), after(1, 8)};
  reports[2].calls[1].signature.collective = ECH_BROADCAST;
  EXPECT_EQ(compare(reports, name).mismatch,
            "call #1: rank 2 entered broadcast, 2 others allreduce");
}

// Who has gone on may have ended the call in which the others still are.
TEST(Compare, ACallThatHasEndedCountsToo) {
  Snapshot ahead = after(3, 8);
  ahead.calls[2].signature.count = 7;
  EXPECT_EQ(compare({after(2, 8), after(2, 8), ahead}, name).mismatch,
            "allreduce #2: rank 2 entered with count 7, 2 others with count 8");
}

TEST(Inquiry, AsksAgainUntilAllHaveAnswered) {
  Inquiry inquiry(3, seconds(4));
  const Time start = Time() + seconds(100);
  EXPECT_FALSE(inquiry.ask(start));
  inquiry.complain(start);
  EXPECT_TRUE(inquiry.ask(start));
  EXPECT_FALSE(inquiry.ask(start + milliseconds(999)));
  EXPECT_TRUE(inquiry.ask(start + seconds(1)));
  inquiry.answer(0, inquiry.number(), {});
  inquiry.answer(1, inquiry.number(), {});
  inquiry.answer(2, inquiry.number() - 1, {});  // to an earlier question
  EXPECT_FALSE(inquiry.conclude(start + seconds(2)));
  inquiry.answer(2, inquiry.number(), {});
  ASSERT_TRUE(inquiry.conclude(start + seconds(2)));
  EXPECT_FALSE(inquiry.under_way());
  inquiry.complain(start + milliseconds(2500));
  EXPECT_FALSE(inquiry.under_way()) << "too soon";
  inquiry.complain(start + seconds(3));
  EXPECT_TRUE(inquiry.under_way());
}

TEST(Inquiry, TellsWhoIsSilent) {
  Inquiry inquiry(4, seconds(4));
  const Time start = Time() + seconds(100);
  inquiry.complain(start);
  ASSERT_TRUE(inquiry.ask(start));
  inquiry.answer(0, inquiry.number(), {});
  inquiry.answer(2, inquiry.number(), {});
  EXPECT_TRUE(inquiry.silent(start + milliseconds(3999)).empty());
  EXPECT_EQ(inquiry.silent(start + seconds(4)), (std::vector<int>{1, 3}));
}

}  // namespace
}  // namespace echelon
