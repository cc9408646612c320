// SPDX-License-Identifier: Apache-2.0
// Connections at rank 0's port that do not belong to the job, and ranks that do not fit.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>

#include "lib/bootstrap/standby_call.h"
#include "tests/support/ranks.h"
#include "tests/unit/bootstrap/family.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

using test::Clock;
using test::expect_error;
using test::in;
using test::kLong;
using test::milliseconds;
using test::within;

constexpr milliseconds kSecond{1000 * test::kSlowness};

Fd connect_to(const Address& root) {
  Fd fd(::socket(root.family(), SOCK_STREAM, 0));
  EXPECT_EQ(::connect(fd.get(), root.raw(), root.length), 0);
  return fd;
}

// Two ranks must come together within a second although `knock` has happened.
void two_ranks_meet_despite(const std::function<std::vector<Fd>(const Address&)>& knock) {
  const UniqueId id = listen_for_ranks("lo");
  const std::vector<Fd> strangers = knock(id.root);
  test::run_threads(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds(20));
    const auto start = Clock::now();
    const auto control = join(Identity::with(id, rank, 2), within(kLong));
    EXPECT_EQ(control->allgather("x", in(kLong)).size(), 2u);
    control->close(in(kLong));
    EXPECT_LE(Clock::now() - start, kSecond);
  });
}

std::vector<Fd> send_each(const Address& root, const std::vector<std::string>& messages) {
  std::vector<Fd> fds;
  for (const std::string& bytes : messages) {
    fds.push_back(connect_to(root));
    (void)!::send(fds.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  return fds;
}

TEST(Strangers, TwoHundredIdleConnections) {
  two_ranks_meet_despite(
      [](const Address& root) { return send_each(root, std::vector<std::string>(200)); });
}

TEST(Strangers, AThousandIdleConnections) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  if (limit.rlim_cur < 2200) GTEST_SKIP() << "only " << limit.rlim_cur << " descriptors allowed";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  {
    const UniqueId id = listen_for_ranks("lo");
    const auto strangers = send_each(id.root, std::vector<std::string>(1000));
    test::run_threads(2, [&](int rank) {
      const auto start = Clock::now();
      join(Identity::with(id, rank, 2), within(kLong))->close(in(kLong));
      EXPECT_LE(Clock::now() - start, 3 * kSecond);
    });
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Strangers, RandomBytes) {
  two_ranks_meet_despite([](const Address& root) {
    std::mt19937 random(1);
    std::vector<std::string> messages;
    for (int i = 0; i < 50; ++i) {
      messages.emplace_back(random() % 5000, '\0');
      for (char& c : messages.back()) c = static_cast<char>(random());
    }
    return send_each(root, messages);
  });
}

TEST(Strangers, BeginningsOfHellosAndHellosWithoutProof) {
  two_ranks_meet_despite([](const Address& root) {
    const std::string hello = encode_hello(random_secret(), std::string(kChallengeBytes, '\0'),
                                           Hello{{}, 2, 1, 1, "evil"});
    std::vector<std::string> messages;
    for (std::size_t n = 0; n < hello.size(); n += 10) messages.push_back(hello.substr(0, n));
    messages.push_back(hello);
    messages.push_back(hello + hello);
    return send_each(root, messages);
  });
}

TEST(Strangers, ConnectionsClosedAtOnce) {
  two_ranks_meet_despite([](const Address& root) {
    for (int i = 0; i < 100; ++i) connect_to(root);
    return std::vector<Fd>{};
  });
}

// One that keeps sending a byte of a hello at a time, while the second rank comes late.
TEST(Strangers, SlowLoris) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<bool> done = false;
  std::thread loris([&] {
    const Fd fd = connect_to(id.root);
    const std::string hello = encode_challenge() + std::string(200, 'x');
    for (std::size_t i = 0; i < hello.size() && !done; ++i) {
      if (::send(fd.get(), &hello[i], 1, MSG_NOSIGNAL) < 0) break;
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  test::run_threads(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds(200));
    const auto control = join(Identity::with(id, rank, 2), within(kLong));
    control->close(in(kLong));
  });
  done = true;
  loris.join();
}

struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;

  Log log() {
    return {[](ech_log_level, const char* line, void* self) {
              auto* const lines = static_cast<Lines*>(self);
              std::lock_guard lock(lines->mutex);
              lines->lines.push_back(line);
            },
            this, ECH_LOG_WARN};
  }
};

// The thread that answers for a rank after a failure speaks where its communicator does.
TEST(WrongSecret, AtADoormanGoesToTheCallersLogOnly) {
  test::Family family(2);
  Lines lines;
  family[0].log = lines.log();
  testing::internal::CaptureStderr();
  family[0].answer();
  Standby stranger(1, {}, {family.address(0), family.address(1)}, random_secret());
  StandbyCall call(stranger, 0, kSecond);
  const auto limit = in(kSecond);
  while (call.advance(Clock::now()) != StandbyCall::State::kNotThere && Clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(call.state(), StandbyCall::State::kNotThere);
  family.kill(0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_NE(lines.lines[0].find("job's secret"), std::string::npos) << lines.lines[0];
}

// As a kernel leaves it that has accepted for a process that ends just then: nothing ever comes.
TEST(Standby, ACallOnADeadConnectionIsMadeAgain) {
  Listener listener = listen_on_interface("lo");
  const Standby caller(1, {}, {listener.address, listener.address}, random_secret());
  StandbyCall call(caller, 0, kSecond);
  call.advance(Clock::now());
  pollfd entry{listener.fd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, static_cast<int>(milliseconds(kSecond).count())), 1);
  const Fd connection(::accept(listener.fd.get(), nullptr, nullptr));
  listener.fd = Fd();
  const auto limit = in(kLong);
  while (call.advance(Clock::now()) != StandbyCall::State::kNotThere && Clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(call.state(), StandbyCall::State::kNotThere);
}

TEST(WrongSecret, ClearOnBothSidesAndTheRightOneStillComes) {
  const UniqueId id = listen_for_ranks("lo");
  Lines lines;
  std::atomic<int> refused = 0;
  test::run_threads(5, [&](int thread) {
    const bool wrong = thread >= 2;
    if (thread == 1)
      while (refused < 3) std::this_thread::sleep_for(milliseconds(1));
    Identity identity = Identity::with(id, thread == 0 ? 0 : 1, 2);
    JoinOptions options = within(kLong);
    options.log = lines.log();
    if (wrong) {
      identity.secret[31] ^= 1;
      expect_error(ECH_ERR_AUTH, {id.root.text(), "rank 1", "different secrets"}, kSecond,
                   [&] { join(identity, options); });
      ++refused;
      return;
    }
    join(identity, options)->close(in(kLong));
  });
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_NE(lines.lines[0].find("secret"), std::string::npos);
  EXPECT_NE(lines.lines[0].find("127.0.0.1:"), std::string::npos);
}

TEST(WrongSecret, IsInTheTimeoutOfRankZero) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(2, [&](int rank) {
    Identity identity = Identity::with(id, rank, 2);
    if (rank == 0)
      return expect_error(ECH_ERR_TIMEOUT, {"rank 1 of 2", "secret", "127.0.0.1:"}, kSecond,
                          [&] { join(identity, within(milliseconds(300))); });
    identity.secret = random_secret();
    expect_error(ECH_ERR_AUTH, {}, kSecond, [&] { join(identity, within(kLong)); });
  });
}

// The others may also be told by the closing of the listening socket, when they come after.
void others_fail_too(const Identity& identity, const std::string& culprit) {
  try {
    join(identity, within(kLong));
    ADD_FAILURE() << "rank " << identity.rank << " joined";
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == ECH_ERR_INVALID || e.code() == ECH_ERR_PEER) << e.what();
    const bool named = std::string(e.what()).find(culprit) != std::string::npos;
    EXPECT_TRUE(e.code() == ECH_ERR_PEER || named) << e.what();
  }
}

TEST(Misfit, OtherSizeFailsOnBothSides) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(3, [&](int rank) {
    if (rank == 2) std::this_thread::sleep_for(milliseconds(50));
    const auto start = Clock::now();
    if (rank == 1) {
      others_fail_too(Identity::with(id, 1, 3), "rank 2");
    } else {
      expect_error(ECH_ERR_INVALID, {"rank 2", "127.0.0.1:", "4 ranks", "told 3"}, kSecond,
                   [&] { join(Identity::with(id, rank, rank == 2 ? 4 : 3), within(kLong)); });
    }
    EXPECT_LE(Clock::now() - start, kSecond);
  });
}

void expect_other_version(const Version& version, const std::string& shown) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(2, [&](int rank) {
    JoinOptions options = within(kLong);
    if (rank == 1) options.version = version;
    expect_error(ECH_ERR_INVALID, {"rank 1", shown, Version{}.text()}, kSecond,
                 [&] { join(Identity::with(id, rank, 2), options); });
  });
}

TEST(Misfit, OtherVersionFailsOnBothSides) {
  Version other;
  other.library = 9008007;
  expect_other_version(other, "echelon 9.8.7");
}

TEST(Misfit, OtherProtocolFailsOnBothSides) {
  Version other;
  other.protocol = 77;
  expect_other_version(other, "(protocol 77)");
}

TEST(Misfit, SameRankTwiceFailsOnBothSides) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<int> named = 0;
  test::run_threads(3, [&](int thread) {
    const auto start = Clock::now();
    try {
      join(Identity::with(id, thread == 0 ? 0 : 1, 3), within(kLong));
      ADD_FAILURE() << "joined";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID) << e.what();
      named += std::string(e.what()).find("came twice") != std::string::npos;
    }
    EXPECT_LE(Clock::now() - start, kSecond);
  });
  EXPECT_EQ(named, 3);
}

TEST(Misfit, RankThatHasNoPlaceLeftIsToldAtOnce) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(2, [&](int rank) {
    const auto control = join(Identity::with(id, rank, 2), within(kLong));
    if (rank == 1)
      expect_error(ECH_ERR_PEER, {"rank 1", "used twice"}, kSecond,
                   [&] { join(Identity::with(id, 1, 2), within(kLong)); });
    control->close(in(kLong));
  });
}

TEST(Misfit, ProgramThatIsNotEchelonIsNamed) {
  const Listener other = listen_at("127.0.0.1", 0, "");
  std::thread program([&] {
    pollfd entry{other.fd.get(), POLLIN, 0};
    ::poll(&entry, 1, -1);
    const Fd fd(::accept(other.fd.get(), nullptr, nullptr));
    (void)!::send(fd.get(), "SSH-2.0", 7, MSG_NOSIGNAL);
  });
  expect_error(ECH_ERR_AUTH, {other.address.text(), "not an Echelon"}, kSecond,
               [&] { join(test::at(other.address, 1, 2), within(kLong)); });
  program.join();
}

}  // namespace
}  // namespace echelon
