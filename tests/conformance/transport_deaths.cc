// SPDX-License-Identifier: Apache-2.0
// For transports that notice when the process of a peer dies.
#include "tests/conformance/transport_suite.h"

namespace echelon::test {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST_P(MortalTransportSuite, APeerThatIsKilledFailsWhatIsPending) {
  run_with_victim(3, [](TestRank& rank) {
    constexpr std::size_t kBytes = 1 << 20;
    const int victim = rank.size() - 1;
    std::vector<Bytes> data(3, Bytes(kBytes));
    std::vector<Completion> pending(3);
    rank.transport().receive(victim, 1, {data[0].data(), 8}, pending[0]);
    ASSERT_TRUE(rank.wait(pending[0]));  // connected
    rank.transport().receive(victim, 2, data[0], pending[0]);
    rank.transport().receive(victim, 3, {data[1].data(), 0}, pending[1]);
    rank.transport().receive(1 - rank.self(), 4, {data[2].data(), 8}, pending[2]);
    const auto start = Clock::now();
    ASSERT_TRUE(rank.wait([&] { return pending[0].done && pending[1].done; }));
    EXPECT_LT(Clock::now() - start, milliseconds(1000));
    EXPECT_EQ(pending[0].status, ECH_ERR_PEER);
    EXPECT_EQ(pending[1].status, ECH_ERR_PEER);
    EXPECT_EQ(pending[0].peer, victim);
    Completion late;
    rank.transport().send(victim, 1, data[0], late);
    ASSERT_TRUE(rank.wait(late));
    EXPECT_EQ(late.status, ECH_ERR_PEER);
    Completion sent;  // the others still work
    rank.transport().send(1 - rank.self(), 4, {data[1].data(), 8}, sent);
    ASSERT_TRUE(rank.wait([&] { return sent.done && pending[2].done; }));
    EXPECT_EQ(pending[2].status, ECH_OK);
  });
}

}  // namespace
}  // namespace echelon::test
