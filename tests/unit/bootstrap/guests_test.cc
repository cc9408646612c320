// SPDX-License-Identifier: Apache-2.0
// Who may stay of those that have proved nothing: with made-up addresses and times.
#include "lib/bootstrap/guests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace echelon {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPlaces = 64;  // of which a crowd has 8
constexpr milliseconds kBlink{1};

Guest guest_from(const std::string& address) {
  Guest guest;
  guest.from = *parse_address(address);
  return guest;
}

class GuestsTest : public testing::Test {
 protected:
  bool come(const std::string& address) { return guests_.add(guest_from(address), now_); }
  void fill_from_everywhere() {
    for (std::size_t i = 0; i < kPlaces; ++i) ASSERT_TRUE(come(fmt::format("10.0.0.{}", i)));
  }
  void fill_with_crowd() {
    while (guests_.size() < kPlaces) ASSERT_TRUE(come("10.0.0.1"));
  }
  std::string oldest() { return guests_.all().front().from.host(); }
  std::size_t from(const std::string& address) {
    std::size_t n = 0;
    for (const Guest& guest : guests_.all()) n += guest.from.host() == address;
    return n;
  }

  Guests guests_{kPlaces};
  Deadline now_ = Deadline::clock::now();
};

TEST_F(GuestsTest, AllMayComeWhileThereArePlaces) {
  EXPECT_EQ(guests_.when(now_), Deadline::max());
  fill_with_crowd();
  EXPECT_EQ(guests_.size(), kPlaces);
}

TEST_F(GuestsTest, NewcomersWaitUntilTheOldestHasHadItsTurn) {
  fill_from_everywhere();
  EXPECT_FALSE(guests_.may_come(now_));
  EXPECT_EQ(guests_.when(now_), now_ + kGuestTurn);
  EXPECT_FALSE(come("10.0.1.1")) << "would have pushed out a rank that had no time to answer";
  now_ += kGuestTurn;
  EXPECT_TRUE(guests_.may_come(now_));
  EXPECT_TRUE(come("10.0.1.1"));
  EXPECT_EQ(oldest(), "10.0.0.1");
  EXPECT_EQ(guests_.size(), kPlaces);
}

TEST_F(GuestsTest, ACrowdMakesRoomForOthersAtOnce) {
  ASSERT_TRUE(come("10.0.0.2"));  // the oldest, but no crowd
  fill_with_crowd();
  EXPECT_TRUE(guests_.may_come(now_));
  for (const char* address : {"10.0.0.3", "10.0.0.4", "10.0.0.5"}) EXPECT_TRUE(come(address));
  EXPECT_EQ(guests_.size(), kPlaces);
  EXPECT_EQ(from("10.0.0.1"), kPlaces - 4);
  EXPECT_EQ(oldest(), "10.0.0.2");
}

TEST_F(GuestsTest, ACrowdGetsNoMoreThanItsTurns) {
  fill_with_crowd();
  now_ += kCrowdTurn - kBlink;
  EXPECT_FALSE(come("10.0.0.1"));
  now_ += kBlink;
  EXPECT_TRUE(come("10.0.0.1"));
  EXPECT_EQ(guests_.size(), kPlaces);
}

TEST_F(GuestsTest, SeveralCrowdsMakeRoomToo) {
  for (std::size_t i = 0; i < kPlaces; ++i) ASSERT_TRUE(come(fmt::format("10.0.0.{}", i % 8)));
  EXPECT_FALSE(come("10.0.0.3"));
  EXPECT_TRUE(come("10.0.1.1"));
}

TEST_F(GuestsTest, ANetworkOfIpv6IsOneParty) {
  for (std::size_t i = 0; i < kPlaces; ++i) ASSERT_TRUE(come(fmt::format("fd00::{:x}", i)));
  EXPECT_FALSE(come("fd00::ffff"));
  EXPECT_TRUE(come("fd00:0:0:1::1"));
  EXPECT_TRUE(come("10.0.0.1"));
}

TEST_F(GuestsTest, APlaceThatIsLeftIsFree) {
  fill_with_crowd();
  for (std::size_t i = 0; i < kPlaces; ++i) guests_.erase(guests_.all().begin());
  EXPECT_EQ(guests_.size(), 0u);
  fill_from_everywhere();
  EXPECT_FALSE(guests_.may_come(now_)) << "a crowd that has left counts on";
}

TEST_F(GuestsTest, NobodyStaysForLong) {
  ASSERT_TRUE(come("10.0.0.1"));
  now_ += kBlink;
  ASSERT_TRUE(come("10.0.0.2"));
  EXPECT_EQ(guests_.when(now_), now_ - kBlink + kGuestPatience);
  now_ += kGuestPatience - kBlink;
  guests_.expire(now_);
  ASSERT_EQ(guests_.size(), 1u);
  EXPECT_EQ(oldest(), "10.0.0.2");
}

TEST_F(GuestsTest, WithoutDescriptorsThereAreFewerPlaces) {
  EXPECT_FALSE(guests_.give_up_place());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(come(fmt::format("10.0.0.{}", i)));
  EXPECT_TRUE(guests_.give_up_place());
  EXPECT_EQ(guests_.size(), 3u);
  EXPECT_EQ(oldest(), "10.0.0.1");
  EXPECT_FALSE(guests_.may_come(now_));
  EXPECT_TRUE(guests_.may_come(now_ + kGuestTurn));
}

TEST(GuestPlaces, AreAQuarterOfTheDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limit = before;
  for (const rlim_t descriptors : {rlim_t{16}, rlim_t{400}, before.rlim_max}) {
    limit.rlim_cur = std::min(descriptors, before.rlim_max);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const std::size_t places = guest_places();
    EXPECT_GE(places, kLeastCrowd);
    EXPECT_LE(places, kMostGuests);
    EXPECT_TRUE(places == kLeastCrowd || 4 * places <= limit.rlim_cur);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace echelon
