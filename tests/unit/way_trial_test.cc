// SPDX-License-Identifier: Apache-2.0
// How lanes find out which of two ways pays.
#include "transports/shm/way_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "transports/shm/call_time.h"

namespace echelon::shm {
namespace {

using Time = WayTrial::Time;

constexpr TrialCall kSmall{GroupAction::kAllreduce, 64 << 10};
constexpr TrialCall kMedium{GroupAction::kAllreduce, 256 << 10};
constexpr TrialCall kLarge{GroupAction::kAllreduce, 4 << 20};
constexpr Time kLong{1000}, kShort{500};

// What is found of calls that take so long the usual way and the other.
Finding only_finding(WayTrial& trial, const TrialCall& call, Time usual, Time other,
                     double pays = kPaysOthers) {
  Finding found = Finding::kUnknown;
  while (found == Finding::kUnknown)
    if (const std::optional<bool> tried = trial.begin(call))
      found = trial.end(*tried ? other : usual, pays);
  return found;
}

// How so many calls go: u and o in trials, the usual way and the other.
std::string ways(WayTrial& trial, const TrialCall& call, int calls) {
  std::string all;
  for (int i = 0; i < calls; ++i) {
    const std::optional<bool> tried = trial.begin(call);
    all += !tried ? '.' : *tried ? 'o' : 'u';
    if (tried) trial.end(kLong, kPaysOthers);
  }
  return all;
}

TEST(WayTrial, GoesBothWaysTwiceAndThenSeldom) {
  WayTrial even(0), odd(1);
  EXPECT_EQ(ways(even, kSmall, 20), "uuuuoooooooouuuu....");
  EXPECT_EQ(ways(odd, kSmall, 20), "oooouuuuuuuuoooo....");
  EXPECT_EQ(ways(even, kSmall, 252), std::string(252, '.'));
  EXPECT_EQ(ways(even, kSmall, 10), "uuuuoooo..");
}

TEST(WayTrial, TakesFewerCallsThatAreLarge) {
  WayTrial trial(0);
  EXPECT_EQ(ways(trial, kLarge, 10), "uuoooouu..");
}

// Also of two members, where both cannot copy at the same time.
TEST(CallTime, DividesWhatIsDoneForAll) {
  EXPECT_EQ(staging_of_gathers(2, false), Staging::kBeside);
  EXPECT_EQ(staging_of_gathers(2, true), Staging::kForAll);
  EXPECT_EQ(staging_of_gathers(4, false), Staging::kForAll);
  EXPECT_EQ(staging_of_gathers(4, true), Staging::kForAll);
}

// Two rounds of a call, in each of which it takes 10 to copy out of what took others 60 to copy in;
// then it ends at 500.
Time of_two_rounds(Staging how, int members) {
  const CallTime::Clock::time_point start{};
  CallTime time;
  for (const Time now : {Time(100), Time(300)}) {
    time.add_staging(how, Time(60), members, start + now);
    time.add(Time(10));
  }
  return time.until(start + Time(500));
}

TEST(CallTime, CountsWhatStagingCosts) {
  EXPECT_EQ(of_two_rounds(Staging::kInTurn, 4), Time(2 * (60 + 10)));
  EXPECT_EQ(of_two_rounds(Staging::kForAll, 4), Time(2 * (60 / 3 + 10)));
  EXPECT_EQ(of_two_rounds(Staging::kForAll, 2), Time(2 * (60 + 10)));
  EXPECT_EQ(of_two_rounds(Staging::kBeside, 2), Time(500 - 100 + 60)) << "with the waiting";
}

TEST(WayTrial, IsOfTwoLanes) {
  for (const int lane : {2, 3, 7}) {
    WayTrial trial(lane);
    EXPECT_EQ(ways(trial, kSmall, 100), std::string(100, '.'));
  }
}

TEST(WayTrial, FindsWhatTakesLess) {
  for (const auto& call : {kSmall, kLarge})
    for (const int lane : {0, 1}) {
      WayTrial trial(lane);
      EXPECT_EQ(only_finding(trial, call, kLong, kShort), Finding::kOther);
      EXPECT_EQ(only_finding(trial, call, kShort, kLong), Finding::kUsual);
    }
}

TEST(WayTrial, ChangesNothingForLessThanATenth) {
  WayTrial trial(0);
  EXPECT_EQ(only_finding(trial, kSmall, Time(1000), Time(901)), Finding::kUsual);
  EXPECT_EQ(only_finding(trial, kSmall, Time(1000), Time(899)), Finding::kOther);
}

TEST(WayTrial, LeavesTheCacheToOthersForALittleMore) {
  WayTrial trial(0);
  const auto finding = [&](Time other) {
    return only_finding(trial, kSmall, Time(1000), other, kPaysResults);
  };
  EXPECT_EQ(finding(Time(1049)), Finding::kOther);
  EXPECT_EQ(finding(Time(1051)), Finding::kUsual);
}

// The first calls of each way find what the other has left, and the second half has an accident.
TEST(WayTrial, TakesTheLeastOfTheSecondHalf) {
  WayTrial trial(0);
  Finding found = Finding::kUnknown;
  for (const int took : {1, 1, 900, 5000, 9000, 9000, 5000, 500}) {
    ASSERT_EQ(found, Finding::kUnknown);
    ASSERT_TRUE(trial.begin(kSmall));
    found = trial.end(Time(took), kPaysOthers);
  }
  EXPECT_EQ(found, Finding::kOther);
}

TEST(WayTrial, FindsNothingWhereNothingWasTaken) {
  WayTrial trial(0);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(trial.begin(kSmall));
    EXPECT_EQ(trial.end(std::nullopt, kPaysOthers), Finding::kUnknown);
  }
}

// Other sizes and actions on the same lane are not compared with it, and classes do not wait for
// each other.
TEST(WayTrial, IsOfOneKindOfCallAtATime) {
  WayTrial trial(0);
  const TrialCall other{GroupAction::kAllgather, kSmall.bytes}, near{kSmall.action, 65 << 10};
  EXPECT_EQ(ways(trial, kSmall, 3), "uuu");
  EXPECT_EQ(ways(trial, other, 2) + ways(trial, near, 2), "....");
  EXPECT_EQ(ways(trial, kSmall, 14), "uoooooooouuuu.");
  EXPECT_EQ(ways(trial, near, 1), ".") << "the same class";
  EXPECT_EQ(ways(trial, kLarge, 10), "uuoooouu..");
}

TEST(WayTrial, TriesAgainLateWhatIsKnown) {
  for (const Finding known : {Finding::kUsual, Finding::kOther}) {
    WayTrial trial(0, word_of(known, trial_class(kSmall)));
    EXPECT_EQ(ways(trial, kSmall, 256), std::string(256, '.'));
    EXPECT_EQ(ways(trial, kLarge, 8), "uuoooouu") << "of which nothing is known";
    EXPECT_EQ(ways(trial, kSmall, 10), "uuuuoooo..");
  }
}

TEST(WayTrial, HasFoundItsPartOfAllCallsByThen) {
  WayTrial trial(0);
  EXPECT_EQ(ways(trial, kSmall, calls_until_found()).find('.'), 16u) << "two trials";
  EXPECT_EQ(calls_until_found(), 3 * 16);
}

TEST(WayTrial, IsGivenUpWhenItsCallsDoNotCome) {
  WayTrial trial(0);
  EXPECT_EQ(ways(trial, kSmall, 3), "uuu");
  EXPECT_EQ(ways(trial, kMedium, 64), std::string(64, '.'));
  EXPECT_EQ(ways(trial, kMedium, 5), "uuuuo");
}

TEST(WayTrial, GoesOnAmongManyOtherCalls) {
  WayTrial trial(0);
  std::string seen;
  for (int i = 0; i < 7; ++i) {
    seen += ways(trial, kSmall, 1);
    EXPECT_EQ(ways(trial, kMedium, 60), std::string(60, '.')) << i;
  }
  EXPECT_EQ(seen + ways(trial, kSmall, 1), "uuuuoooo");
}

// There may be few of them.
TEST(WayTrial, OfLargeCallsDoesNotWaitForASmallerOne) {
  WayTrial trial(0);
  const TrialCall larger{kLarge.action, 16 * kLarge.bytes};
  EXPECT_EQ(ways(trial, kSmall, 3), "uuu");
  EXPECT_EQ(ways(trial, kLarge, 3), "uuo");
  EXPECT_EQ(ways(trial, larger, 1), "u");
  EXPECT_EQ(ways(trial, kLarge, 1), ".") << "the larger goes on";
  EXPECT_EQ(ways(trial, larger, 8), "uoooouu.");
  EXPECT_EQ(ways(trial, kLarge, 8), "uuoooouu");
  EXPECT_EQ(ways(trial, kSmall, 1), "u");
  EXPECT_EQ(ways(trial, larger, 1), ".") << "is known, and ends nothing";
  EXPECT_EQ(ways(trial, kSmall, 3), "uuu");
}

TEST(TrialClass, HasSizesUpToFourTimesThoseBefore) {
  for (const auto& [bytes, number] : {std::pair{1, 0},
                                      {4 << 10, 0},
                                      {(16 << 10) - 1, 0},
                                      {16 << 10, 1},
                                      {64 << 10, 2},
                                      {1 << 20, 4},
                                      {64 << 20, 7}}) {
    const auto size = static_cast<std::size_t>(bytes);
    EXPECT_EQ(trial_class({GroupAction::kAllreduce, size}), number) << bytes;
    EXPECT_EQ(trial_class({GroupAction::kReduceScatter, size}), number) << bytes;
    EXPECT_EQ(trial_class({GroupAction::kAllgather, size}), 8 + number) << bytes;
    EXPECT_EQ(trial_class({GroupAction::kAllgather, size, true}), 16 + number) << bytes;
  }
  EXPECT_EQ(trial_class({GroupAction::kAllgather, std::size_t{1} << 40, true}), 23);
}

void note(Findings& findings, Finding finding, int times) {
  for (int i = 0; i < times; ++i) findings.note(kSmall, finding);
}

Finding said(const Findings& findings, const TrialCall& call = kSmall) {
  return finding_in(findings.word(), trial_class(call));
}

TEST(Findings, SayWhatTwoThirdsFound) {
  Findings findings;
  EXPECT_EQ(said(findings), Finding::kUnknown);
  note(findings, Finding::kOther, 1);
  EXPECT_EQ(said(findings), Finding::kUnknown) << "one is too few";
  note(findings, Finding::kUnknown, 1);
  EXPECT_EQ(said(findings), Finding::kUnknown) << "is none";
  note(findings, Finding::kOther, 1);
  EXPECT_EQ(said(findings), Finding::kOther);
  note(findings, Finding::kUsual, 1);
  EXPECT_EQ(said(findings), Finding::kOther) << "2 of 3";
  note(findings, Finding::kUsual, 1);
  EXPECT_EQ(said(findings), Finding::kUsual) << "2 of 4";
}

TEST(Findings, ForgetWhatWasLongAgo) {
  Findings findings;
  note(findings, Finding::kUsual, 100);
  note(findings, Finding::kOther, 5);
  EXPECT_EQ(said(findings), Finding::kUsual) << "5 of 8";
  note(findings, Finding::kOther, 1);
  EXPECT_EQ(said(findings), Finding::kOther) << "6 of 8";
}

TEST(Findings, GoByWhatWasKnownUntilTheirOwnSayElse) {
  const std::uint64_t known =
      word_of(Finding::kOther, trial_class(kSmall)) | word_of(Finding::kUsual, trial_class(kLarge));
  Findings findings(known);
  EXPECT_EQ(findings.word(), known);
  EXPECT_EQ(findings.own_word(), 0u);
  note(findings, Finding::kUsual, 1);
  EXPECT_EQ(said(findings), Finding::kOther) << "2 of 3";
  note(findings, Finding::kUsual, 1);
  EXPECT_EQ(said(findings), Finding::kUsual) << "2 of 4";
  EXPECT_EQ(findings.own_word(), word_of(Finding::kUsual, trial_class(kSmall)));
}

TEST(Findings, AreOfClasses) {
  constexpr TrialCall kLast{GroupAction::kAllgather, std::size_t{1} << 40, true};
  Findings findings;
  note(findings, Finding::kOther, 2);
  for (int i = 0; i < 2; ++i) findings.note(kLast, Finding::kUsual);
  EXPECT_EQ(said(findings, {GroupAction::kReduceScatter, 255 << 10}), Finding::kOther);
  EXPECT_EQ(said(findings, {GroupAction::kAllgather, 64 << 20, true}), Finding::kUsual);
  EXPECT_EQ(said(findings, {GroupAction::kAllgather, 64 << 20}), Finding::kUnknown);
  for (const std::size_t bytes : {4 << 10, 4 << 20})
    EXPECT_EQ(said(findings, {kSmall.action, bytes}), Finding::kUnknown) << bytes;
  EXPECT_EQ(said(findings, {GroupAction::kAllgather, kSmall.bytes}), Finding::kUnknown);
}

}  // namespace
}  // namespace echelon::shm
