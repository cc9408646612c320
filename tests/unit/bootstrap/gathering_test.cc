// SPDX-License-Identifier: Apache-2.0
// Who leads, whom to call and when to decide: one rank with made-up events, then many ranks in a
// made-up network with random times of coming and dying.
#include "lib/bootstrap/gathering.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "lib/base/join.h"
#include "tests/support/ranks.h"

namespace echelon {
namespace {

using std::chrono::milliseconds;
using Seats = std::vector<int>;

constexpr int kSlow = test::kSanitized ? 25 : 1;  // sanitizers at -O0 take minutes
constexpr milliseconds kWait{1000};               // for who is silent
constexpr WaitingTimes kTimes{kWait, 10 * kWait};
const Deadline kStart = Deadline() + std::chrono::hours(1);

Gathering gathering(int self, int size) {
  return Gathering(self, std::vector<bool>(size), kTimes, kStart);
}

TEST(Gathering, AloneDecidesAtOnce) {
  EXPECT_TRUE(gathering(0, 1).decided(kStart));
  Gathering last(2, {true, true, false}, kTimes, kStart);
  EXPECT_TRUE(last.decided(kStart));
  EXPECT_EQ(last.members(), Seats{2});
  EXPECT_TRUE(last.left_out().empty());
}

TEST(Gathering, CallsTheLowestFirstAndThenTwiceAsMany) {
  const Gathering g = gathering(9, 20);
  EXPECT_EQ(g.seats_to_call(kStart), Seats{0});
  EXPECT_EQ(g.seats_to_call(kStart + kCallStep), (Seats{0, 1}));
  EXPECT_EQ(g.seats_to_call(kStart + 2 * kCallStep), (Seats{0, 1, 2, 3}));
  EXPECT_EQ(g.seats_to_call(kStart + 9 * kCallStep).size(), 19u);
  EXPECT_EQ(g.next(kStart), kStart + kCallStep);
  EXPECT_EQ(g.next(kStart + kCallStep * 3 / 2), kStart + 2 * kCallStep);
  EXPECT_EQ(g.next(kStart + 9 * kCallStep), kStart + kWait);
}

TEST(Gathering, TheDeadAreReplacedByTheNextAtOnce) {
  Gathering g = gathering(3, 5);
  g.died(0);
  g.died(1);
  EXPECT_EQ(g.seats_to_call(kStart), Seats{2});
  g.died(2);
  EXPECT_EQ(g.seats_to_call(kStart), Seats{4});
  EXPECT_FALSE(g.decided(kStart));
  g.came(4);
  EXPECT_TRUE(g.decided(kStart));
  EXPECT_EQ(g.members(), (Seats{3, 4}));
}

TEST(Gathering, FollowsOnlyLowerOnes) {
  Gathering g = gathering(3, 6);
  g.came(5);
  g.follow(2, kStart);
  EXPECT_FALSE(g.leads());
  EXPECT_EQ(g.members(), Seats{3}) << "its followers are not its own any more";
  EXPECT_TRUE(g.matters(1));
  EXPECT_FALSE(g.matters(2));
  EXPECT_FALSE(g.matters(4));
  EXPECT_EQ(g.seats_to_call(kStart), (Seats{0, 1})) << "all that may answer yet";
  EXPECT_FALSE(g.decided(kStart + 10 * kWait)) << "who follows does not decide";
  g.follow(0, kStart);
  EXPECT_EQ(g.leader(), 0);
  EXPECT_TRUE(g.seats_to_call(kStart).empty());
}

TEST(Gathering, AFollowerThatLeavesIsWaitedFor) {
  Gathering g = gathering(0, 3);
  g.came(1);
  g.came(2);
  EXPECT_TRUE(g.decided(kStart));
  g.left(1);
  EXPECT_FALSE(g.decided(kStart));
  EXPECT_EQ(g.seats_to_call(kStart), Seats{1});
  g.died(1);
  EXPECT_TRUE(g.decided(kStart));
  EXPECT_EQ(g.members(), (Seats{0, 2}));
}

TEST(Gathering, WaitsSoLongAndNoLonger) {
  Gathering g = gathering(1, 4);
  g.came(3);
  EXPECT_FALSE(g.decided(kStart + kWait - milliseconds(1)));
  EXPECT_TRUE(g.decided(kStart + kWait));
  EXPECT_EQ(g.members(), (Seats{1, 3}));
  EXPECT_EQ(g.left_out(), (Seats{0, 2}));
}

TEST(Gathering, WaitsLongerForWhoLives) {
  Gathering g = gathering(0, 3);
  const Deadline later = kStart + kWait / 2;
  g.lives(2, later);
  EXPECT_EQ(g.next(kStart + 5 * kCallStep), later + kWait);
  EXPECT_FALSE(g.decided(kStart + kWait));
  EXPECT_TRUE(g.decided(later + kWait)) << "it has not been heard of since";
  for (int i = 0; i < 100; ++i) g.lives(2, kStart + i * kWait / 2);
  EXPECT_FALSE(g.decided(kStart + kTimes.alive - milliseconds(1)));
  EXPECT_TRUE(g.decided(kStart + kTimes.alive));
  EXPECT_EQ(g.left_out(), (Seats{1, 2}));
}

TEST(Gathering, ALostLeaderStartsItAnew) {
  Gathering g = gathering(2, 4);
  g.follow(0, kStart);
  const Deadline later = kStart + kWait * 9 / 10;
  g.lose_leader(later);
  EXPECT_TRUE(g.leads());
  EXPECT_EQ(g.seats_to_call(later), Seats{0});
  EXPECT_FALSE(g.decided(kStart + kWait));
  EXPECT_TRUE(g.decided(later + kWait));
}

TEST(Gathering, ALeaderThatIsSilentIsGivenUp) {
  Gathering g = gathering(2, 4);
  g.follow(0, kStart);
  const Deadline heard = kStart + 10 * kWait;
  g.hear_leader(heard);
  const Deadline overdue = heard + kLeastSilence;
  EXPECT_FALSE(g.leader_overdue(overdue - milliseconds(1)));
  EXPECT_EQ(g.next(heard), overdue);
  EXPECT_TRUE(g.leader_overdue(overdue));
  g.give_up(0);
  g.lose_leader(overdue);
  EXPECT_EQ(g.seats_to_call(overdue), Seats{1});
  g.died(1);
  g.came(3);
  EXPECT_TRUE(g.decided(overdue));
  EXPECT_EQ(g.left_out(), Seats{0}) << "it has to be told";
}

TEST(Gathering, SilenceIsMeasuredByTheWaitingTime) {
  Gathering g(1, std::vector<bool>(2), {milliseconds(8000), milliseconds(8000)}, kStart);
  g.follow(0, kStart);
  EXPECT_EQ(g.next(kStart), kStart + milliseconds(4000));
  EXPECT_EQ(g.beat(), milliseconds(500));
}

// ---- many
// -----------------------------------------------------------------------------------------

// A network in which every step takes one to five milliseconds.
class World {
 public:
  struct Rank {
    int comes = 0, dies = INT_MAX;  // ms
    bool answers = false;           // before it comes, that it lives
    std::optional<Gathering> gathering;
    std::optional<Seats> group;  // once it is decided
    bool left_out = false;       // and knows it
    std::vector<int> asking;     // by seat: when it will be let in; 0: it does not ask
  };

  explicit World(int size) : ranks(size) {}

  void run(int limit) {
    for (now_ = 0; now_ < limit && !over(); ++now_)
      for (int r = 0; r < size(); ++r) act(r);
  }
  bool alive(int r) const { return now_ < ranks[r].dies; }
  int size() const { return static_cast<int>(ranks.size()); }
  int now() const { return now_; }

  std::vector<Rank> ranks;
  std::mt19937 random;

 private:
  Deadline time() const { return kStart + milliseconds(now_); }
  bool over() const {
    return std::ranges::all_of(
        ranks, [this](const Rank& r) { return r.group || r.left_out || now_ >= r.dies; });
  }
  bool present(int r) const {
    return alive(r) && ranks[r].gathering && !ranks[r].group && !ranks[r].left_out;
  }

  void act(int r) {
    Rank& rank = ranks[r];
    if (!alive(r) || rank.group || rank.left_out || now_ < rank.comes) return;
    if (!rank.gathering) {
      rank.gathering.emplace(r, std::vector<bool>(size()), kTimes, time());
      rank.asking.assign(size(), 0);
    }
    Gathering& g = *rank.gathering;
    look_after(r, g);
    for (int seat : g.seats_to_call(time())) call(r, seat);
    if (g.leader_overdue(time())) {
      g.give_up(g.leader());
      g.lose_leader(time());
    }
    if (!g.decided(time())) return;
    for (int member : g.members()) ranks[member].group = g.members();
    for (int seat : g.left_out()) ranks[seat].left_out = true;
  }

  // Connections to the dead, and to a leader that follows another, have ended.
  void look_after(int r, Gathering& g) {
    if (!g.leads() && (!present(g.leader()) || !ranks[g.leader()].gathering->leads()))
      g.lose_leader(time());
    else
      g.hear_leader(time());
    for (int member : g.members())
      if (member != r && (!present(member) || ranks[member].gathering->leader() != r))
        g.left(member);
  }

  void call(int r, int seat) {
    Gathering& g = *ranks[r].gathering;
    int& at = ranks[r].asking[seat];
    if (!alive(seat)) return g.died(seat);
    if (seat > r || !present(seat) || !ranks[seat].gathering->leads()) {
      at = 0;
      if (present(seat) || ranks[seat].answers) g.lives(seat, time());
      return;
    }
    if (at == 0) at = now_ + 1 + static_cast<int>(random() % 5);
    if (now_ < at || !g.matters(seat)) return;
    at = 0;
    for (Rank& other : ranks)
      if (other.gathering && !other.group && other.gathering->leader() == r && &other != &ranks[r])
        other.gathering->lose_leader(time());
    g.follow(seat, time());
    ranks[seat].gathering->came(r);
  }

  int now_ = 0;
};

std::string story(const World& world) {
  std::string text;
  for (const World::Rank& rank : world.ranks)
    text += fmt::format("[comes {} dies {} group {}] ", rank.comes, rank.dies,
                        rank.group ? joined(*rank.group, ",") : "-");
  return text;
}

TEST(ManyGatherings, WhoComesInTimeIsIn) {
  for (unsigned seed = 0; seed < 300 / kSlow; ++seed) {
    World world(2 + static_cast<int>(seed % 15));
    world.random.seed(seed);
    Seats survivors;
    for (int r = 0; r < world.size(); ++r) {
      world.ranks[r].answers = world.random() % 2 == 0;
      const auto limit = std::chrono::duration_cast<milliseconds>(
          (world.ranks[r].answers ? kTimes.alive : kWait) - milliseconds(50));
      world.ranks[r].comes = static_cast<int>(world.random() % limit.count());
      if (world.random() % 4 == 0) world.ranks[r].dies = 0;
      if (world.ranks[r].dies > 0) survivors.push_back(r);
    }
    world.run(20'000);
    for (int r : survivors) {
      ASSERT_TRUE(world.ranks[r].group) << "seed " << seed << ": " << story(world);
      EXPECT_EQ(*world.ranks[r].group, survivors) << "seed " << seed << ": " << story(world);
    }
  }
}

// Ranks, leaders among them, die at any moment, and some come after the waiting time.
TEST(ManyGatherings, OnlyOneGroupGoesOn) {
  int late = 0;
  for (unsigned seed = 0; seed < 500 / kSlow; ++seed) {
    World world(2 + static_cast<int>(seed % 11));
    world.random.seed(seed);
    for (World::Rank& rank : world.ranks) {
      rank.comes = static_cast<int>(world.random() % 2500);
      rank.answers = world.random() % 2 == 0;
      if (world.random() % 3 == 0) rank.dies = static_cast<int>(world.random() % 3000);
    }
    world.run(60'000);
    const Seats* group = nullptr;
    for (int r = 0; r < world.size(); ++r) {
      if (!world.alive(r)) continue;
      const World::Rank& rank = world.ranks[r];
      late += rank.left_out;
      ASSERT_NE(rank.group.has_value(), rank.left_out) << "seed " << seed << ": " << story(world);
      if (rank.left_out) continue;
      if (group == nullptr) group = &*rank.group;
      EXPECT_EQ(*rank.group, *group) << "seed " << seed << ": " << story(world);
      EXPECT_TRUE(std::ranges::binary_search(*group, r)) << "seed " << seed;
    }
  }
  EXPECT_GT(late, 50 / kSlow) << "the test does not try what it should";
}

TEST(ManyGatherings, AWholeHostOfLowestSeatsIsCutOff) {
  constexpr int kSize = test::kSanitized ? 60 : 200, kHost = kSize / 3;
  World world(kSize);
  for (int r = 0; r < kHost; ++r) world.ranks[r].comes = INT_MAX;  // no answer of any kind
  world.run(2 * kWait.count());
  const std::size_t others = kSize - kHost;
  for (int r = kHost; r < kSize; ++r) {
    ASSERT_TRUE(world.ranks[r].group) << r;
    EXPECT_EQ(world.ranks[r].group->size(), others) << r;
  }
}

}  // namespace
}  // namespace echelon
