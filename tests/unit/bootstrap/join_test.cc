// SPDX-License-Identifier: Apache-2.0
// Ranks that find each other and exchange bytes, as threads and as processes.
#include <fcntl.h>

#include "lib/bootstrap/listener.h"
#include "tests/support/ranks.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

using test::in;
using test::kLong;
using test::milliseconds;
using test::within;

std::string bytes_of(int rank, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>((i * 31 + i / 257 + static_cast<std::size_t>(rank) * 7) & 0xff);
  return bytes;
}

void exchange(Control& control, std::size_t size) {
  const auto all = control.allgather(bytes_of(control.rank(), size), in(kLong));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(control.size()));
  for (int rank = 0; rank < control.size(); ++rank)
    EXPECT_TRUE(all[rank] == bytes_of(rank, size)) << "from rank " << rank;
}

void whole_life(const UniqueId& id, int rank, int size) {
  const auto control = join(Identity::with(id, rank, size), within(kLong));
  EXPECT_EQ(control->rank(), rank);
  EXPECT_EQ(control->size(), size);
  exchange(*control, 0);
  for (int i = 0; i < 20; ++i) exchange(*control, 100 + i);
  EXPECT_NO_THROW(control->check());
  control->close(in(kLong));
}

class Sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(1, 2, 3, 8, 16));

TEST_P(Sizes, Processes) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_processes(GetParam(), [&](int rank) { whole_life(id, rank, GetParam()); });
}

TEST_P(Sizes, Threads) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(GetParam(), [&](int rank) { whole_life(id, rank, GetParam()); });
}

// Nobody comes to rank 0, and nobody answers rank 1, although its connection is made.
TEST(Join, EndsWhenThereIsNoUseInWaiting) {
  for (int rank : {0, 1}) {
    const UniqueId id = listen_for_ranks("lo");
    JoinOptions options = within(kLong);
    options.check = [until = in(milliseconds(200))] {
      if (std::chrono::steady_clock::now() > until) throw Error(ECH_ERR_ABORTED, "no use");
    };
    test::expect_error(ECH_ERR_ABORTED, {"no use"}, milliseconds(5'000),
                       [&] { join(Identity::with(id, rank, 2), options); });
    if (rank == 1) take_listener(id);
  }
}

TEST(Join, TellsWhereOtherHostsReachARank) {
  for (const std::string& interface : {std::string("lo"), std::string()}) {
    const Address root = interface_address(interface);
    const UniqueId id = listen_for_ranks(interface);
    test::run_threads(3, [&](int rank) {
      const auto control = join(Identity::with(id, rank, 3), within(kLong));
      EXPECT_EQ(control->address(), root.is_loopback() ? "" : root.host());
      control->close(in(kLong));
    });
  }
}

TEST(Join, LongMessages) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(3, [&](int rank) {
    const auto control = join(Identity::with(id, rank, 3), within(kLong));
    exchange(*control, 5 << 20);
    exchange(*control, 1);
    control->close(in(kLong));
  });
}

TEST(Join, EachRankItsOwnSize) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(4, [&](int rank) {
    const auto control = join(Identity::with(id, rank, 4), within(kLong));
    const std::size_t mine = rank == 2 ? 0 : 70000 * static_cast<std::size_t>(rank);
    const auto all = control->allgather(bytes_of(rank, mine), in(kLong));
    EXPECT_EQ(all[1].size(), 70000u);
    EXPECT_EQ(all[2].size(), 0u);
    EXPECT_EQ(all[3].size(), 210000u);
    control->close(in(kLong));
  });
}

// Without an id rank 0 may come later than the others.
TEST(Join, RootComesLate) {
  Identity identity;
  identity.size = 3;
  identity.host = "127.0.0.1";
  identity.secret = random_secret();
  identity.port = listen_at("127.0.0.1", 0, "").address.port();  // free again at once
  test::run_threads(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(test::milliseconds(300));
    const auto start = test::Clock::now();
    Identity mine = identity;
    mine.rank = rank;
    const auto control = join(mine, within(kLong));
    EXPECT_LE(test::Clock::now() - start, test::milliseconds(1000));
    exchange(*control, 10);
    control->close(in(kLong));
  });
}

// The same meeting point again, as for the second communicator of a job.
TEST(Join, SamePortAgainAndAgain) {
  Identity identity;
  identity.size = 3;
  identity.host = "localhost";
  identity.secret = random_secret();
  identity.port = listen_at("localhost", 0, "").address.port();
  test::run_threads(3, [&](int rank) {
    Identity mine = identity;
    mine.rank = rank;
    for (int i = 0; i < 10; ++i) {
      const auto control = join(mine, within(kLong));
      exchange(*control, 10);
      control->close(in(kLong));
    }
  });
}

TEST(Join, OverIpv6) {
  const Fd probe(::socket(AF_INET6, SOCK_STREAM, 0));
  Address six = *parse_address("::1");
  if (!probe || ::bind(probe.get(), six.raw(), six.length) != 0)
    GTEST_SKIP() << "this machine has no IPv6 loopback";
  const UniqueId id = listen_for_ranks("::1");
  test::run_threads(3, [&](int rank) { whole_life(id, rank, 3); });
}

// More ranks at once than rank 0 holds unproved connections.
TEST(Join, ThreeHundredProcesses) {
  const UniqueId id = listen_for_ranks("lo");
  test::run_processes(300, [&](int rank) {
    const auto control = join(Identity::with(id, rank, 300), within(kLong));
    exchange(*control, 8);
    control->close(in(kLong));
  });
}

TEST(Join, ManyCommunicatorsAtOnce) {
  std::vector<UniqueId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(listen_for_ranks("lo"));
  test::run_threads(8, [&](int thread) { whole_life(ids[thread / 2], thread % 2, 2); });
}

TEST(Join, LeavesNoDescriptorOpen) {
  const auto count = [] {
    int open = 0;
    for (int fd = 0; fd < 256; ++fd) open += ::fcntl(fd, F_GETFD) >= 0;
    return open;
  };
  const int before = count();
  const UniqueId id = listen_for_ranks("lo");
  test::run_threads(3, [&](int rank) { whole_life(id, rank, 3); });
  EXPECT_EQ(count(), before);
}

TEST(Join, ImpossibleRankOrSize) {
  const UniqueId id = listen_for_ranks("lo");
  const test::milliseconds second{1000};
  test::expect_error(ECH_ERR_INVALID, {"rank 4", "0-3"}, second,
                     [&] { join(Identity::with(id, 4, 4), within(kLong)); });
  test::expect_error(ECH_ERR_INVALID, {"rank -1"}, second,
                     [&] { join(Identity::with(id, -1, 4), within(kLong)); });
  test::expect_error(ECH_ERR_INVALID, {"size is 0"}, second,
                     [&] { join(Identity::with(id, 0, 0), within(kLong)); });
  take_listener(id);
}

TEST(Solo, NeedsNoSocket) {
  const auto control = join({}, within(kLong));
  EXPECT_EQ(control->fd(), -1);
  EXPECT_EQ(control->allgather("me", in(kLong)), std::vector<std::string>{"me"});
  control->fail({ECH_ERR_ABORTED, "aborted by the test"});
  test::expect_error(ECH_ERR_ABORTED, {"aborted by the test"}, test::milliseconds(100),
                     [&] { control->check(); });
}

}  // namespace
}  // namespace echelon
