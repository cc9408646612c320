// SPDX-License-Identifier: Apache-2.0
// Survivors that find each other again: threads over real sockets.
#include "lib/bootstrap/reunion.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>

#include "lib/base/join.h"
#include "lib/bootstrap/dial.h"
#include "lib/bootstrap/gathering.h"
#include "lib/bootstrap/notice.h"
#include "tests/support/ranks.h"
#include "tests/unit/bootstrap/family.h"

namespace echelon {
namespace {

using test::Clock;
using test::expect_error;
using test::expect_together;
using test::Family;
using test::in;
using test::milliseconds;
using test::waiting;

using Seats = std::vector<int>;

constexpr milliseconds kPatient{20'000};  // longer than any test may take
constexpr milliseconds kBrief{300};
constexpr milliseconds kSoon{2000 * test::kSlowness};

// All of `seats` look for each other at once, in their own threads.
void reunite_all(Family& family, const Seats& seats) {
  test::run_threads(static_cast<int>(seats.size()), [&](int i) {
    Standby& standby = family[seats[i]];
    expect_together(reunite(standby, waiting(kPatient)), standby, seats);
  });
}

Fd connected(const Address& to) {
  auto [fd, error] = dial(to, "");
  EXPECT_EQ(error, 0);
  pollfd entry{fd.get(), POLLOUT, 0};
  ::poll(&entry, 1, 1000);
  return std::move(fd);
}

void say(const Fd& fd, const std::string& bytes) {
  (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

struct Losses {
  int size;
  Seats dead;
};

std::ostream& operator<<(std::ostream& out, const Losses& losses) {
  return out << fmt::format("{} without {}", losses.size, joined(losses.dead, "+"));
}

class Survivors : public testing::TestWithParam<Losses> {};
INSTANTIATE_TEST_SUITE_P(Reunion, Survivors,
                         testing::Values(Losses{4, {}}, Losses{4, {0}}, Losses{4, {1}},
                                         Losses{4, {3}}, Losses{4, {0, 1}}, Losses{5, {0, 3}},
                                         Losses{4, {0, 1, 2}}, Losses{4, {1, 2, 3}}, Losses{2, {0}},
                                         Losses{2, {1}}, Losses{1, {}},
                                         Losses{24, {0, 1, 2, 3, 4, 5, 6, 7}}));

TEST_P(Survivors, ComeTogetherInOrder) {
  Family family(GetParam().size);
  Seats seats;
  for (int seat = 0; seat < GetParam().size; ++seat) seats.push_back(seat);
  for (int seat : GetParam().dead) {
    family.kill(seat);
    std::erase(seats, seat);
  }
  const auto start = Clock::now();
  reunite_all(family, seats);
  EXPECT_LE(Clock::now() - start, kSoon) << "waited for the dead";
}

TEST(Reunion, AgainAndAgain) {
  Family family(5);
  Seats seats = {0, 1, 2, 3, 4};
  for (int dead : {0, 3, 1, 4}) {
    family.kill(dead);
    std::erase(seats, dead);
    reunite_all(family, seats);
  }
}

TEST(Reunion, LeavesNoDescriptorOpen) {
  const auto count = [] {
    int open = 0;
    for (int fd = 0; fd < 256; ++fd) open += ::fcntl(fd, F_GETFD) >= 0;
    return open;
  };
  Family family(4);
  family.kill(0);
  const int before = count();
  for (int i = 0; i < 20; ++i) reunite_all(family, {1, 2, 3});
  EXPECT_EQ(count(), before);
}

// ---- late ranks ---------------------------------------------------------------------------------

class Late : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seat, Late, testing::Values(0, 1, 2));

// The others have gathered around another leader by then.
TEST_P(Late, ButInTimeIsIn) {
  Family family(4);
  family.kill(3);
  test::run_threads(3, [&](int seat) {
    if (seat == GetParam()) std::this_thread::sleep_for(kBrief);
    expect_together(reunite(family[seat], waiting(kPatient)), family[seat], {0, 1, 2});
  });
}

TEST_P(Late, IsLeftOutAndToldWhenItComes) {
  Family family(3);
  Seats others = {0, 1, 2};
  std::erase(others, GetParam());
  test::run_threads(2, [&](int i) {
    expect_together(reunite(family[others[i]], waiting(kBrief)), family[others[i]], others);
  });
  const std::string who = test::seat_name(others[0]) + " has gone on without";
  for (int attempt = 0; attempt < 2; ++attempt)
    expect_error(ECH_ERR_ABORTED, {who, test::seat_name(GetParam())}, kSoon,
                 [&] { reunite(family[GetParam()], waiting(kPatient)); });
}

// Also in the moment in which that rank greets whoever comes.
TEST(LateNotice, ReachesARankThatIsLooking) {
  for (int round = 0; round < 30; ++round) {
    Family family(3);
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(5));
      leave_notices(family[0], {2});
    });
    expect_error(ECH_ERR_ABORTED, {test::seat_name(0), test::seat_name(2)}, kSoon,
                 [&] { reunite(family[2], waiting(kPatient)); });
    other.join();
  }
}

// Who left it has gone by now, so that only the notice can tell.
TEST(LateNotice, IsReadBeforeItsRankGoesOnAlone) {
  Family family(2);
  leave_notices(family[0], {1});
  family.kill(0);
  expect_error(ECH_ERR_ABORTED, {test::seat_name(0), test::seat_name(1)}, kSoon,
               [&] { reunite(family[1], waiting(kPatient)); });
}

// The doorman had let it in, but goes before it has come.
TEST(LateNotice, IsNotLostBetweenTheDoormanAndTheSearch) {
  Family family(2);
  family[1].answer();
  const Fd guest = connected(family.address(1));
  pollfd challenge{guest.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&challenge, 1, 10'000), 1) << "nobody let it in";
  { const Standby::Use use(family[1]); }
  say(guest, encode_notice(family[0], 1));
  family.kill(0);
  expect_error(ECH_ERR_ABORTED, {test::seat_name(0), test::seat_name(1)}, kSoon,
               [&] { reunite(family[1], waiting(kPatient)); });
}

TEST(LateNotice, OfOneThatIsOutItselfIsNoNews) {
  Family family(3);
  leave_notices(family[2], {0, 1});
  family[0].gone[2] = family[1].gone[2] = true;
  reunite_all(family, {0, 1});
}

TEST(LateNotice, IsForOneSeatOfOneFamilyOnly) {
  Family family(3), other(3);
  const std::string notice = encode_notice(family[0], 2);
  EXPECT_EQ(decode_notice(family[2], notice), 0);
  EXPECT_EQ(decode_notice(family[1], notice), std::nullopt);
  EXPECT_EQ(decode_notice(other[2], notice), std::nullopt);
  EXPECT_EQ(decode_notice(family[2], notice.substr(1)), std::nullopt);
}

// Its notice was lost: the others tell it when it calls them.
TEST(Reunion, WhoWasLeftOutIsTurnedAway) {
  Family family(4);
  family.kill(3);
  family[0].gone[2] = family[1].gone[2] = true;
  std::atomic<bool> told = false;
  test::run_threads(3, [&](int seat) {
    if (seat == 1)  // keeps seat 0 waiting
      while (!told) std::this_thread::sleep_for(milliseconds(1));
    if (seat < 2)
      return expect_together(reunite(family[seat], waiting(kPatient)), family[seat], {0, 1});
    expect_error(ECH_ERR_ABORTED, {test::seat_name(0), test::seat_name(2)}, kSoon,
                 [&] { reunite(family[2], waiting(kPatient)); });
    told = true;
  });
}

// ---- those that live and do not come yet --------------------------------------------------------

// As one that computes: the others wait for it longer than for one that is silent.
class AnsweredFor : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seat, AnsweredFor, testing::Values(0, 2));
constexpr milliseconds kSilent{700 * test::kSlowness};

TEST_P(AnsweredFor, IsWaitedFor) {
  Family family(4);
  family.kill(3);
  family[GetParam()].answer();
  test::run_threads(3, [&](int seat) {
    if (seat == GetParam()) std::this_thread::sleep_for(2 * kSilent);
    expect_together(reunite(family[seat], waiting(kSilent)), family[seat], {0, 1, 2});
  });
}

TEST_P(AnsweredFor, IsNotWaitedForForEver) {
  Family family(3);
  family[GetParam()].answer();
  Seats others = {0, 1, 2};
  std::erase(others, GetParam());
  test::run_threads(2, [&](int i) {
    ReunionOptions options = waiting(kBrief);
    options.times.alive = 2 * kBrief;
    expect_together(reunite(family[others[i]], options), family[others[i]], others);
  });
  expect_error(ECH_ERR_ABORTED, {"has gone on without", test::seat_name(GetParam())}, kSoon,
               [&] { reunite(family[GetParam()], waiting(kPatient)); });
}

TEST(Doorman, OfARankThatDiesIsNotWaitedFor) {
  Family family(3);
  family[2].answer();
  const auto start = Clock::now();
  test::run_threads(3, [&](int seat) {
    if (seat < 2)
      return expect_together(reunite(family[seat], waiting(kPatient)), family[seat], {0, 1});
    std::this_thread::sleep_for(2 * kBrief);
    family.kill(2);
  });
  EXPECT_LE(Clock::now() - start, kSoon);
}

TEST(Doorman, ComesAndGoes) {
  Family family(2);
  for (int i = 0; i < 5; ++i) {
    family[0].answer();
    family[0].answer();
    reunite_all(family, {0, 1});
    { const Standby::Use use(family[0]); }
  }
}

// ---- failures -----------------------------------------------------------------------------------

TEST(Reunion, EndsAtItsDeadline) {
  Family family(3);
  ReunionOptions options = waiting(kPatient);
  options.deadline = in(kBrief);
  expect_error(ECH_ERR_TIMEOUT, {test::seat_name(1), test::seat_name(0), test::seat_name(2)}, kSoon,
               [&] { reunite(family[1], options); });
}

TEST(Reunion, OneThreadAtATime) {
  Family family(2);
  const Standby::Use use(family[1]);
  expect_error(ECH_ERR_INVALID, {"another thread"}, kSoon,
               [&] { reunite(family[1], waiting(kPatient)); });
}

TEST(Reunion, WithoutDescriptorsIsAnErrorThatSaysSo) {
  Family family(3);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  expect_error(ECH_ERR_NO_MEMORY, {"open files"}, kSoon,
               [&] { reunite(family[1], waiting(kPatient)); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// ---- strangers ----------------------------------------------------------------------------------

TEST(ReunionStrangers, DoNotDisturb) {
  Family family(4), others(4);
  family.kill(1);
  std::vector<Fd> guests;
  for (int seat : {0, 2, 3}) {
    for (int i = 0; i < 20; ++i) guests.push_back(connected(family.address(seat)));  // idle
    guests.push_back(connected(family.address(seat)));
    say(guests.back(), "GET / HTTP/1.0\r\n\r\n");
    guests.push_back(connected(family.address(seat)));
    say(guests.back(), encode_notice(others[1], seat));
    guests.push_back(connected(family.address(seat)));
    say(guests.back(), encode_hello(random_secret(), encode_challenge(), {{}, 4, 3, 1, "x"}));
    connected(family.address(seat));  // and leaves
  }
  const auto start = Clock::now();
  reunite_all(family, {0, 2, 3});
  EXPECT_LE(Clock::now() - start, kSoon);
}

// The port of a dead rank has a new owner by now.
class NewOwner : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Says, NewOwner, testing::Values("SSH-2.0-OpenSSH_9.2\r\n", "challenge"));

TEST_P(NewOwner, OfAPortIsNotTakenForItsRank) {
  Family family(3);
  const Address address = family.address(0);
  family.kill(0);
  Listener owner = listen_at("127.0.0.1", address.port(), "lo");
  std::atomic<bool> done = false;
  std::thread serving([&] {
    std::vector<Fd> guests;
    while (!done) {
      guests.emplace_back(::accept4(owner.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!guests.back()) {
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      const std::string greeting = GetParam();
      say(guests.back(), greeting == "challenge" ? encode_challenge() : greeting);
      say(guests.back(), std::string(kVerdictBytes, '\x89'));
    }
  });
  const auto start = Clock::now();
  test::run_threads(2, [&](int i) {
    expect_together(reunite(family[1 + i], waiting(kPatient)), family[1 + i], {1, 2});
  });
  EXPECT_LE(Clock::now() - start, kSoon);
  done = true;
  serving.join();
}

// ---- messages -----------------------------------------------------------------------------------

TEST(Members, RoundTripAndNothingElse) {
  const Seats seats = {0, 2, 7};
  const std::string good = encode_members(seats);
  EXPECT_EQ(decode_members(good, 8), seats);
  for (std::size_t n = 0; n < good.size(); ++n)
    expect_error(ECH_ERR_INVALID, {"survivors"}, kSoon,
                 [&] { decode_members(good.substr(0, n), 8); });
  for (const Seats& bad : {Seats{}, Seats{1}, Seats{1, 1}, Seats{2, 1}, Seats{0, 8}, Seats{-1, 3}})
    expect_error(ECH_ERR_INVALID, {"survivors"}, kSoon,
                 [&] { decode_members(encode_members(bad), 8); });
  expect_error(ECH_ERR_INVALID, {"survivors"}, kSoon, [&] { decode_members(good + "x", 8); });
}

}  // namespace
}  // namespace echelon
