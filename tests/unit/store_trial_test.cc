// SPDX-License-Identifier: Apache-2.0
// How lanes find out whether writing past the cache pays.
#include "transports/shm/store_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

namespace echelon::shm {
namespace {

using Time = StoreTrial::Time;

constexpr StoreCall kSmall{GroupAction::kAllreduce, 64 << 10};
constexpr StoreCall kLarge{GroupAction::kAllreduce, 4 << 20};
constexpr Time kLong{1000}, kShort{500};

// Makes a call that takes so long by way of the cache and past it.
Finding make(StoreTrial& trial, const StoreCall& call, Time cached, Time past) {
  const std::optional<bool> tried = trial.begin(call);
  return tried ? trial.end(*tried ? past : cached) : Finding::kUnknown;
}

// How so many calls go: c and p in trials, by way of the cache and past it.
std::string ways(StoreTrial& trial, const StoreCall& call, int calls) {
  std::string all;
  for (int i = 0; i < calls; ++i) {
    const std::optional<bool> tried = trial.begin(call);
    all += !tried ? '.' : *tried ? 'p' : 'c';
    if (tried) trial.end(kLong);
  }
  return all;
}

Finding only_finding(StoreTrial& trial, const StoreCall& call, Time cached, Time past) {
  Finding found = Finding::kUnknown;
  while (found == Finding::kUnknown) found = make(trial, call, cached, past);
  return found;
}

TEST(StoreTrial, GoesBothWaysTwiceAndThenSeldom) {
  StoreTrial even(0), odd(1);
  EXPECT_EQ(ways(even, kSmall, 20), "ccccppppppppcccc....");
  EXPECT_EQ(ways(odd, kSmall, 20), "ppppccccccccpppp....");
  EXPECT_EQ(ways(even, kSmall, 252), std::string(252, '.'));
  EXPECT_EQ(ways(even, kSmall, 10), "ccccpppp..");
}

TEST(StoreTrial, TakesFewerCallsThatAreLarge) {
  StoreTrial trial(0);
  EXPECT_EQ(ways(trial, kLarge, 10), "ccppppcc..");
}

TEST(StoreTrial, IsOfTwoLanes) {
  for (const int lane : {2, 3, 7}) {
    StoreTrial trial(lane);
    EXPECT_EQ(ways(trial, kSmall, 100), std::string(100, '.'));
  }
}

TEST(StoreTrial, FindsWhatTakesLess) {
  for (const auto& call : {kSmall, kLarge})
    for (const int lane : {0, 1}) {
      StoreTrial trial(lane);
      EXPECT_EQ(only_finding(trial, call, kLong, kShort), Finding::kPast);
      EXPECT_EQ(only_finding(trial, call, kShort, kLong), Finding::kCached);
    }
}

TEST(StoreTrial, ChangesNothingForLessThanATenth) {
  StoreTrial trial(0);
  EXPECT_EQ(only_finding(trial, kSmall, Time(1000), Time(901)), Finding::kCached);
  EXPECT_EQ(only_finding(trial, kSmall, Time(1000), Time(899)), Finding::kPast);
}

TEST(StoreTrial, LeavesTheCacheToOthersForALittleMore) {
  StoreTrial trial(0, kPaysResults);
  EXPECT_EQ(only_finding(trial, kSmall, Time(1000), Time(1049)), Finding::kPast);
  EXPECT_EQ(only_finding(trial, kSmall, Time(1000), Time(1051)), Finding::kCached);
}

// The first calls of each way find what the other has left, and the second half has an accident.
TEST(StoreTrial, TakesTheLeastOfTheSecondHalf) {
  StoreTrial trial(0);
  Finding found = Finding::kUnknown;
  for (const int took : {1, 1, 900, 5000, 9000, 9000, 5000, 500}) {
    ASSERT_EQ(found, Finding::kUnknown);
    ASSERT_TRUE(trial.begin(kSmall));
    found = trial.end(Time(took));
  }
  EXPECT_EQ(found, Finding::kPast);
}

TEST(StoreTrial, FindsNothingWhereNothingWasTaken) {
  StoreTrial trial(0);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(trial.begin(kSmall));
    EXPECT_EQ(trial.end(std::nullopt), Finding::kUnknown);
  }
}

// Other sizes and actions on the same lane are not compared with it, and classes do not wait for
// each other.
TEST(StoreTrial, IsOfOneKindOfCallAtATime) {
  StoreTrial trial(0);
  const StoreCall other{GroupAction::kAllgather, kSmall.bytes}, near{kSmall.action, 65 << 10};
  EXPECT_EQ(ways(trial, kSmall, 3), "ccc");
  EXPECT_EQ(ways(trial, other, 2) + ways(trial, near, 2), "....");
  EXPECT_EQ(ways(trial, kSmall, 14), "cppppppppcccc.");
  EXPECT_EQ(ways(trial, near, 1), ".") << "the same class";
  EXPECT_EQ(ways(trial, kLarge, 10), "ccppppcc..");
}

TEST(StoreTrial, IsGivenUpWhenItsCallsDoNotCome) {
  StoreTrial trial(0);
  EXPECT_EQ(ways(trial, kSmall, 3), "ccc");
  EXPECT_EQ(ways(trial, kLarge, 64), std::string(64, '.'));
  EXPECT_EQ(ways(trial, kLarge, 5), "ccppp");
}

TEST(StoreTrial, GoesOnAmongManyOtherCalls) {
  StoreTrial trial(0);
  std::string seen;
  for (int i = 0; i < 7; ++i) {
    seen += ways(trial, kSmall, 1);
    EXPECT_EQ(ways(trial, kLarge, 60), std::string(60, '.')) << i;
  }
  EXPECT_EQ(seen + ways(trial, kSmall, 1), "ccccpppp");
}

TEST(StoreClass, HasSizesUpToFourTimesThoseBefore) {
  for (const auto& [bytes, number] : {std::pair{1, 0},
                                      {4 << 10, 0},
                                      {(16 << 10) - 1, 0},
                                      {16 << 10, 1},
                                      {64 << 10, 2},
                                      {1 << 20, 4},
                                      {64 << 20, 7}}) {
    const auto size = static_cast<std::size_t>(bytes);
    EXPECT_EQ(store_class({GroupAction::kAllreduce, size}), number) << bytes;
    EXPECT_EQ(store_class({GroupAction::kReduceScatter, size}), number) << bytes;
    EXPECT_EQ(store_class({GroupAction::kAllgather, size}), 8 + number) << bytes;
  }
  EXPECT_EQ(store_class({GroupAction::kAllgather, std::size_t{1} << 40}), 15);
}

void note(StoreFindings& findings, Finding finding, int times) {
  for (int i = 0; i < times; ++i) findings.note(kSmall, finding);
}

Finding said(const StoreFindings& findings, const StoreCall& call = kSmall) {
  return finding_in(findings.word(), call);
}

TEST(StoreFindings, SayWhatTwoThirdsFound) {
  StoreFindings findings;
  EXPECT_EQ(said(findings), Finding::kUnknown);
  note(findings, Finding::kPast, 1);
  EXPECT_EQ(said(findings), Finding::kUnknown) << "one is too few";
  note(findings, Finding::kUnknown, 1);
  EXPECT_EQ(said(findings), Finding::kUnknown) << "is none";
  note(findings, Finding::kPast, 1);
  EXPECT_EQ(said(findings), Finding::kPast);
  note(findings, Finding::kCached, 1);
  EXPECT_EQ(said(findings), Finding::kPast) << "2 of 3";
  note(findings, Finding::kCached, 1);
  EXPECT_EQ(said(findings), Finding::kCached) << "2 of 4";
}

TEST(StoreFindings, ForgetWhatWasLongAgo) {
  StoreFindings findings;
  note(findings, Finding::kCached, 100);
  note(findings, Finding::kPast, 5);
  EXPECT_EQ(said(findings), Finding::kCached) << "5 of 8";
  note(findings, Finding::kPast, 1);
  EXPECT_EQ(said(findings), Finding::kPast) << "6 of 8";
}

TEST(StoreFindings, AreOfClasses) {
  constexpr StoreCall kLast{GroupAction::kAllgather, std::size_t{1} << 40};
  StoreFindings findings;
  note(findings, Finding::kPast, 2);
  for (int i = 0; i < 2; ++i) findings.note(kLast, Finding::kCached);
  EXPECT_EQ(said(findings, {GroupAction::kReduceScatter, 255 << 10}), Finding::kPast);
  EXPECT_EQ(said(findings, {GroupAction::kAllgather, 64 << 20}), Finding::kCached);
  for (const std::size_t bytes : {4 << 10, 4 << 20})
    EXPECT_EQ(said(findings, {kSmall.action, bytes}), Finding::kUnknown) << bytes;
  EXPECT_EQ(said(findings, {GroupAction::kAllgather, kSmall.bytes}), Finding::kUnknown);
}

}  // namespace
}  // namespace echelon::shm
