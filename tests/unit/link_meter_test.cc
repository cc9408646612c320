// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/link_meter.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPiece = 1 << 20;

LinkMeter::Time at(int ms) { return LinkMeter::Time(milliseconds(ms)); }

// Ranks 0 and 1 on host 0, 2 and 3 on host 1, 4 on host 2.
LinkMeter meter_of(int rank) { return {{0, 0, 1, 1, 2}, rank}; }

void expect_total(const LinkMeter::Total& total, double bytes, double seconds) {
  EXPECT_DOUBLE_EQ(total.bytes, bytes);
  EXPECT_NEAR(total.seconds, seconds, 1e-12);
}

TEST(LinkMeter, WantsLargeMessagesToOtherHosts) {
  const LinkMeter meter = meter_of(1);
  EXPECT_TRUE(meter.wants(2, kPiece));
  EXPECT_TRUE(meter.wants(2, LinkMeter::kSmallest));
  EXPECT_FALSE(meter.wants(2, LinkMeter::kSmallest - 1));
  EXPECT_FALSE(meter.wants(0, kPiece)) << "its own host";
  EXPECT_FALSE(LinkMeter({}, 0).wants(2, kPiece)) << "knows no hosts";
}

TEST(LinkMeter, IdleTimeDoesNotCount) {
  LinkMeter meter = meter_of(0);
  meter.began(2, at(0));
  meter.ended(2, kPiece, at(10));
  meter.began(2, at(1000));
  meter.ended(2, kPiece, at(1020));
  const auto totals = meter.take(at(5000));
  ASSERT_EQ(totals.size(), 3u);
  expect_total(totals[1], 2 * kPiece, 0.03);
  expect_total(totals[0], 0, 0);
  expect_total(totals[2], 0, 0);
}

TEST(LinkMeter, PiecesThatOverlapCountTheirTimeOnce) {
  LinkMeter meter = meter_of(0);
  meter.began(2, at(0));
  meter.began(3, at(5));  // the same host
  meter.ended(2, kPiece, at(10));
  meter.ended(3, kPiece, at(20));
  expect_total(meter.take(at(20))[1], 2 * kPiece, 0.02);
}

// Two hosts at once, each at half of the speed that this rank's link has: both links are fine.
TEST(LinkMeter, HostsThatAreSentToAtOnceShareTheTime) {
  LinkMeter meter = meter_of(0);
  meter.began(2, at(0));
  meter.began(4, at(0));
  meter.ended(2, kPiece, at(20));
  meter.ended(4, kPiece, at(50));
  const auto totals = meter.take(at(50));
  expect_total(totals[1], kPiece, 0.01);
  expect_total(totals[2], kPiece, 0.01 + 0.03);
}

// The link carries both by turns; who is timed takes twice as long as alone.
TEST(LinkMeter, WhatIsSentBesideCountsWithoutTime) {
  LinkMeter meter = meter_of(0);
  meter.beside(2, kPiece);
  meter.began(2, at(0));
  meter.ended(2, kPiece, at(20));
  expect_total(meter.take(at(20))[1], 2 * kPiece, 0.02);
}

TEST(LinkMeter, WhatIsUnderWayIsDividedBetweenPeriods) {
  LinkMeter meter = meter_of(0);
  meter.began(2, at(0));
  expect_total(meter.take(at(30))[1], 0, 0.03);
  meter.ended(2, kPiece, at(50));
  expect_total(meter.take(at(60))[1], kPiece, 0.02);
  expect_total(meter.take(at(70))[1], 0, 0);
}

}  // namespace
}  // namespace echelon
