// SPDX-License-Identifier: Apache-2.0
// Ranks that do not come, die, leave or abort: every other rank ends in time and names the culprit.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "tests/support/ranks.h"
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

std::unique_ptr<Control> joined(const UniqueId& id, int rank, int size) {
  return join(Identity::with(id, rank, size), within(kLong));
}

TEST(Missing, RankIsNamedOnAllRanks) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(3, [&](int rank) {
    expect_error(ECH_ERR_TIMEOUT, {"ranks 3 and 4 of 5"}, kSecond,
                 [&] { join(Identity::with(id, rank, 5), within(milliseconds(200))); });
  });
}

TEST(Missing, RootIsNamed) {
  const Address root = listen_at("127.0.0.1", 0, "").address;  // free again at once
  expect_error(ECH_ERR_TIMEOUT, {"rank 1", "rank 0", "127.0.0.1", "refused"}, kSecond,
               [&] { join(test::at(root, 1, 2), within(milliseconds(200))); });
}

TEST(Missing, RootThatAcceptsButNeverAnswersIsNamed) {
  const UniqueId id = listen_for_ranks("lo");
  expect_error(ECH_ERR_TIMEOUT, {"rank 1", id.root.host(), "does not answer"}, kSecond,
               [&] { join(Identity::with(id, 1, 2), within(milliseconds(200))); });
  take_listener(id);
}

TEST(Missing, RankThatDiesBeforeAllHaveComeIsNamed) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_processes(2, [&](int rank) {
    if (rank == 0)
      return expect_error(ECH_ERR_PEER, {"rank 1", "left before"}, 3 * kSecond,  // TSan: slow _exit
                          [&] { joined(id, 0, 3); });
    std::thread([&] { std::this_thread::sleep_for(milliseconds(500)), _exit(0); }).detach();
    joined(id, 1, 3);
  });
}

TEST(Missing, AllgatherNamesWhoDidNotCall) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<int> ended = 0;
  test::run_threads(4, [&](int rank) {
    const auto control = joined(id, rank, 4);
    if (rank != 2)
      expect_error(ECH_ERR_TIMEOUT, {"allgather", "for rank 2 (host", "pid"}, kSecond,
                   [&] { control->allgather("x", in(milliseconds(200))); });
    ++ended;
    while (ended < 4) std::this_thread::sleep_for(milliseconds(1));
  });
}

TEST(Missing, CloseNamesWhoDidNotCall) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<int> ended = 0;
  test::run_threads(3, [&](int rank) {
    const auto control = joined(id, rank, 3);
    if (rank != 1)
      expect_error(ECH_ERR_TIMEOUT, {"close", "for rank 1 ("}, kSecond,
                   [&] { control->close(in(milliseconds(200))); });
    ++ended;
    while (ended < 3) std::this_thread::sleep_for(milliseconds(1));
  });
}

// Every rank once: killed while the others wait in an allgather.
class Killed : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rank, Killed, testing::Values(0, 1, 3));

TEST_P(Killed, DuringAllgather) {
  const UniqueId id = listen_for_ranks("lo");
  const pid_t victim = ::fork();
  ASSERT_GE(victim, 0);
  if (victim == 0) {
    const auto control = joined(id, GetParam(), 4);
    control->allgather("all have joined", in(kLong));
    std::this_thread::sleep_for(milliseconds(50));
    ::kill(::getpid(), SIGKILL);
  }
  test::run_processes(3, [&](int i) {
    const int rank = i < GetParam() ? i : i + 1;
    const auto control = joined(id, rank, 4);
    control->allgather("all have joined", in(kLong));
    expect_error(ECH_ERR_PEER,
                 {fmt::format("rank {} (host ", GetParam()), fmt::format("pid {}", victim)},
                 kSecond, [&] { control->allgather("x", in(kLong)); });
    expect_error(ECH_ERR_PEER, {}, kSecond, [&] { control->check(); });
  });
  int status = 0;
  ::waitpid(victim, &status, 0);
}

bool readable(const Control& control, milliseconds limit) {
  pollfd entry{control.fd(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(limit.count())) == 1;
}

TEST(Leaving, WithoutGoodbyeIsSeenThroughTheDescriptor) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(3, [&](int rank) {
    auto control = joined(id, rank, 3);
    control->check();
    if (rank == 1) return std::this_thread::sleep_for(milliseconds(50));
    const auto start = Clock::now();
    const auto wait = [&] {
      while (Clock::now() - start < kSecond)
        if (readable(*control, kSecond)) control->check();
    };
    expect_error(ECH_ERR_PEER, {"rank 1 (host"}, kSecond, wait);
    EXPECT_TRUE(readable(*control, milliseconds(0)));  // and stays so
    expect_error(ECH_ERR_PEER, {"rank 1 (host"}, kSecond, [&] { control->close(in(kLong)); });
  });
}

TEST(Leaving, EarlyMessagesDoNotKeepTheDescriptorReadable) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<bool> looked = false;
  test::run_threads(2, [&](int rank) {
    const auto control = joined(id, rank, 2);
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(50));  // the message of rank 1 has come
      control->check();
      EXPECT_FALSE(readable(*control, milliseconds(20)));
      looked = true;
    }
    EXPECT_EQ(control->allgather("x", in(kLong)).size(), 2u);
    control->close(in(kLong));
  });
  EXPECT_TRUE(looked);
}

TEST(Leaving, ClosingWhileOthersGatherIsNamed) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<int> ended = 0;
  test::run_threads(3, [&](int rank) {
    std::unique_ptr<Control> control;
    expect_error(ECH_ERR_PEER, {"rank 2 (host", "closed the communicator"}, kSecond, [&] {
      control = joined(id, rank, 3);
      if (rank == 2) control->close(in(kLong));
      control->allgather("x", in(kLong));
    });
    ++ended;
    while (ended < 3) std::this_thread::sleep_for(milliseconds(1));
  });
}

class Aborter : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rank, Aborter, testing::Values(0, 2));

TEST_P(Aborter, EndsAllgatherEverywhere) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(4, [&](int rank) {
    const auto control = joined(id, rank, 4);
    std::thread other;
    if (rank == GetParam())
      other = std::thread([&] {
        std::this_thread::sleep_for(milliseconds(50));
        for (int i = 0; i < 3; ++i) control->fail({ECH_ERR_ABORTED, "aborted by the test"});
      });
    expect_error(ECH_ERR_ABORTED, {"aborted by the test"}, kSecond, [&] {
      for (;;) control->allgather("x", in(kLong));
    });
    if (other.joinable()) other.join();
  });
}

// Rank 1 has tens of MiB under way to a rank 0 that does not read yet.
TEST(Abort, OvertakesBulkData) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(2, [&](int rank) {
    const auto control = joined(id, rank, 2);
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(150));
      return expect_error(ECH_ERR_ABORTED, {"aborted by the test"}, kSecond,
                          [&] { control->allgather("x", in(kLong)); });
    }
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(50));
      const auto start = Clock::now();
      control->fail({ECH_ERR_ABORTED, "aborted by the test"});
      EXPECT_LE(Clock::now() - start, kSecond);
    });
    expect_error(ECH_ERR_ABORTED, {"aborted by the test"}, kSecond,
                 [&] { control->allgather(std::string(24 << 20, 'x'), in(kLong)); });
    other.join();
  });
}

TEST(Abort, BeforeAndAfterEveryCall) {
  const UniqueId id = listen_for_ranks("lo");
  std::atomic<int> ready = 0;
  test::run_threads(2, [&](int rank) {
    const auto control = joined(id, rank, 2);
    ++ready;
    while (ready < 2) std::this_thread::sleep_for(milliseconds(1));
    control->fail({ECH_ERR_ABORTED, "aborted by the test"});
    expect_error(ECH_ERR_ABORTED, {}, kSecond, [&] { control->check(); });
    expect_error(ECH_ERR_ABORTED, {}, kSecond, [&] { control->allgather("", in(kLong)); });
    expect_error(ECH_ERR_ABORTED, {}, kSecond, [&] { control->close(in(kLong)); });
    control->fail({ECH_ERR_ABORTED, "aborted by the test"});
  });
}

TEST(Abort, AfterCloseDoesNothing) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(2, [&](int rank) {
    const auto control = joined(id, rank, 2);
    control->close(in(kLong));
    control->fail({ECH_ERR_ABORTED, "aborted by the test"});
    EXPECT_NO_THROW(control->check());
  });
}

}  // namespace
}  // namespace echelon
