// SPDX-License-Identifier: Apache-2.0
#include "lib/statistics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <limits>

namespace echelon {
namespace {

using std::chrono::milliseconds;

// Three hosts of one rank.
Layout three_hosts() {
  Layout layout;
  layout.size = 3;
  layout.host_of_rank = {0, 1, 2};
  layout.host_names = {"a", "b", "c"};
  TierGroup all{Group::range(3),
                {Group({0}), Group({1}), Group({2})},
                {},
                {1e8, 1e8, 1e8},
                Source::kMeasured};
  all.link = {LinkKind::kEthernet, 20e-6, 1e8, Source::kMeasured};
  layout.tiers.push_back({TierKind::kCluster, {all}});
  return layout;
}

TEST(NoteBook, TimesLargeOperationsAndOneOfSixteenOthers) {
  int small = 0;
  for (std::uint64_t sequence = 0; sequence < 160; ++sequence) {
    small += NoteBook::is_timed(ECH_ALLREDUCE, 8, sequence);
    EXPECT_TRUE(NoteBook::is_timed(ECH_ALLREDUCE, 64 << 10, sequence));
    EXPECT_FALSE(NoteBook::is_timed(ECH_BROADCAST, 64 << 10, sequence)) << "the root need not wait";
  }
  EXPECT_EQ(small, 10);
}

TEST(NoteBook, APeriodIsManyOperationsOrMuchData) {
  NoteBook book;
  for (int i = 0; i < 1023; ++i) book.called(8, false);
  EXPECT_FALSE(book.period_is_over());
  book.called(8, true);
  EXPECT_TRUE(book.period_is_over());
  EXPECT_EQ(book.timed(), 1u);
  book.close_period({}, {});
  EXPECT_FALSE(book.period_is_over());
  EXPECT_EQ(book.timed(), 0u);
  book.called(64 << 20, true);
  EXPECT_TRUE(book.period_is_over());
}

TEST(NoteBook, MetersTheFirstLargeOperationOfAPeriod) {
  NoteBook book;
  constexpr std::size_t kLarge = (8 << 20) + 1;
  EXPECT_FALSE(book.is_metered(kLarge - 1));
  book.called(kLarge - 1, true);
  EXPECT_TRUE(book.is_metered(kLarge));
  book.called(kLarge, true);
  EXPECT_FALSE(book.is_metered(kLarge));
  book.close_period({}, {});
  EXPECT_TRUE(book.is_metered(kLarge));
}

double seconds_since(NoteBook::Time then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

TEST(NoteBook, CountsOnlyTheTimeAwayWhileSomethingIsUnderWay) {
  NoteBook book;
  book.comes();
  const auto left = std::chrono::steady_clock::now();
  book.goes();
  usleep(20'000);
  book.comes();
  usleep(20'000);  // here
  book.comes();
  book.waited(milliseconds(7));
  const Notes notes = book.close_period({}, {});
  EXPECT_GE(notes.absent, 0.02);
  EXPECT_LT(notes.absent, seconds_since(left) - 0.02);
  EXPECT_DOUBLE_EQ(notes.waited, 0.007);
  EXPECT_EQ(book.close_period({}, {}).absent, 0);
}

TEST(NoteBook, TellsWhetherOperationsShareTheLinks) {
  NoteBook book;
  book.called(8, false);  // blocking
  EXPECT_EQ(book.close_period({}, {}).shared, 0);
  book.called(8, false);
  book.started();
  book.ended();
  EXPECT_EQ(book.close_period({}, {}).shared, 0) << "one after the other";
  book.called(8, false);
  book.started();
  EXPECT_EQ(book.close_period({}, {}).shared, 1) << "what it sent is known in part";
  EXPECT_EQ(book.close_period({}, {}).shared, 1) << "one of the period before";
  book.ended();
  book.close_period({}, {});
  EXPECT_EQ(book.close_period({}, {}).shared, 0);
  book.called(8, false);
  book.started();
  book.called(8, false);
  book.ended();
  EXPECT_EQ(book.close_period({}, {}).shared, 1);
}

TEST(NoteBook, TellsOfTheHostsThatTookLongest) {
  NoteBook book;
  const Notes notes =
      book.close_period({{}, {1e6, 0.1}, {1e6, 0.3}, {1e6, 0.5}, {1e6, 0.2}, {1e6, 0.4}}, {});
  const double expected[] = {3, 5, 2, 4};
  for (std::size_t i = 0; i < Notes::kHosts; ++i) EXPECT_EQ(notes.sent[i].host, expected[i]);
  EXPECT_EQ(NoteBook().close_period({{}, {}}, {}).sent[0].host, -1) << "nothing was sent";
}

Notes notes_of(double waited, double host = -1, double seconds = 0) {
  Notes notes;
  notes.waited = waited;
  if (host >= 0) notes.sent[0] = {host, 1e8, seconds};
  return notes;
}

TEST(NoteBook, WhatAThreadGaveAwayIsNoLackOfACore) {
  NoteBook book;
  const auto starved = [&](std::chrono::seconds before, std::chrono::seconds after) {
    book.begin_metering(before);
    book.called(64 << 20, true);
    return book.close_period({}, after).starved;
  };
  EXPECT_GE(starved(std::chrono::seconds(9), std::chrono::seconds(0)), 9);
  EXPECT_EQ(starved(std::chrono::seconds(0), std::chrono::seconds(9)), 0);
}

TEST(Findings, WhoWaitedLeastCameLast) {
  const Layout layout = three_hosts();
  const std::vector<Notes> notes{notes_of(0.5), notes_of(0.1), notes_of(0.4)};
  Findings findings = evaluate(notes, 10, layout);
  ASSERT_EQ(findings.lateness.size(), 3u);
  EXPECT_DOUBLE_EQ(findings.lateness[0], 0);
  EXPECT_DOUBLE_EQ(findings.lateness[1], 0.04);
  findings.periods = 5;
  double latenesses[3], throughputs[3];
  ech_stats stats = ECH_STATS_INIT;
  stats.latenesses = latenesses;
  stats.throughputs = throughputs;
  report(findings, layout, stats);
  EXPECT_EQ(stats.periods, 5u);
  EXPECT_EQ(stats.timed, 10u);
  EXPECT_EQ(stats.slowest_rank, 1);
  EXPECT_DOUBLE_EQ(stats.lateness, 0.04);
  EXPECT_DOUBLE_EQ(latenesses[2], 0.01);
  EXPECT_EQ(stats.slowest_from, -1);
  EXPECT_EQ(throughputs[0], 0);
}

TEST(Findings, NameTheLinkThatGaveLeast) {
  const Layout layout = three_hosts();
  const std::vector<Notes> notes{notes_of(9, 1, 1.0), notes_of(9, 2, 4.0), notes_of(9, 0, 5.0)};
  const Findings findings = evaluate(notes, 1, layout);
  double throughputs[3];
  ech_stats stats = ECH_STATS_INIT;
  stats.throughputs = throughputs;
  report(findings, layout, stats);
  EXPECT_EQ(stats.slowest_from, 2);
  EXPECT_EQ(stats.slowest_to, 0);
  EXPECT_DOUBLE_EQ(stats.measured, 2e7);
  EXPECT_DOUBLE_EQ(stats.assumed, 1e8);
  EXPECT_DOUBLE_EQ(throughputs[0], 1e8);
  EXPECT_DOUBLE_EQ(throughputs[2], 2.5e7);
}

TEST(Findings, SayNothingOfLinksWhenARankWasAwayOrBusyOrStarved) {
  std::vector<Notes> notes{notes_of(9, 1, 1.0), notes_of(9, 2, 4.0), notes_of(9, 0, 5.0)};
  notes[1].absent = 3;
  EXPECT_TRUE(evaluate(notes, 1, three_hosts()).rates.empty());
  notes[1].absent = 0;
  notes[2].shared = 1;
  EXPECT_TRUE(evaluate(notes, 1, three_hosts()).rates.empty());
  notes[2].shared = 0;
  notes[0].starved = 3;
  EXPECT_TRUE(evaluate(notes, 1, three_hosts()).rates.empty());
  notes[0].starved = 0;
  notes[1].absent = 0.5;
  EXPECT_EQ(evaluate(notes, 1, three_hosts()).rates.size(), 3u);
}

TEST(Findings, BearNonsense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Notes> notes{notes_of(1, 1e300, 1), notes_of(1, nan, 1), notes_of(1, 2, nan)};
  EXPECT_TRUE(evaluate(notes, 1, three_hosts()).rates.empty());
  notes[0].waited = nan;
  EXPECT_EQ(evaluate(notes, 1, three_hosts()).rates.size(), 0u);
}

TEST(Findings, ThatAreNotThereYetAreSaidToBe) {
  ech_stats stats = ECH_STATS_INIT;
  double latenesses[3] = {1, 2, 3};
  stats.latenesses = latenesses;
  report({}, three_hosts(), stats);
  EXPECT_EQ(stats.periods, 0u);
  EXPECT_EQ(stats.slowest_rank, -1);
  EXPECT_EQ(latenesses[1], 0);
}

}  // namespace
}  // namespace echelon
