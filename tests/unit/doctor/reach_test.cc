// SPDX-License-Identifier: Apache-2.0
// Connections that succeed, are refused, and get no answer, on the loopback device.
#include "tools/doctor/reach.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>

namespace echelon::doctor {
namespace {

using Clock = std::chrono::steady_clock;

Reached reach_one(const Target& target, double limit = 5) {
  return reach({&target, 1}, limit).at(0);
}

TEST(Reach, AnOpenPortOfThisMachine) {
  const OpenPort port = open_port();
  const Reached reached = reach_one({"127.0.0.1", port.port});
  EXPECT_EQ(reached.outcome, Outcome::kConnected) << reached.detail;
  EXPECT_EQ(reached.address, "127.0.0.1:" + std::to_string(port.port));
  EXPECT_EQ(reached.detail, "");
}

TEST(Reach, APortThatNobodyHasOpened) {
  std::uint16_t port = 0;
  {
    const OpenPort open = open_port();
    port = open.port;
  }
  const Reached reached = reach_one({"127.0.0.1", port});
  EXPECT_EQ(reached.outcome, Outcome::kRefused);
  EXPECT_EQ(reached.detail, "Connection refused");
}

TEST(Reach, ANameWithoutAddress) {
  const Reached reached = reach_one({"no-such-host.invalid", 1});
  EXPECT_EQ(reached.outcome, Outcome::kUnresolved);
  EXPECT_NE(reached.detail.find("no-such-host.invalid"), std::string::npos) << reached.detail;
}

// A socket whose queue is full: the kernel drops what else arrives, as a firewall does.
class FullSocket {
 public:
  FullSocket() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listener_.get(), raw, length), 0);
    EXPECT_EQ(listen(listener_.get(), 0), 0);
    EXPECT_EQ(getsockname(listener_.get(), raw, &length), 0);
    port = ntohs(address.sin_port);
    for (int i = 0; i < 3; ++i) {
      fillers_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)connect(fillers_.back().get(), raw, length);
    }
  }
  std::uint16_t port = 0;

 private:
  Fd listener_;
  std::vector<Fd> fillers_;
};

TEST(Reach, SilenceIsTakenForAFirewallWhenTheTimeIsOver) {
  const FullSocket full;
  const auto start = Clock::now();
  const Reached reached = reach_one({"127.0.0.1", full.port}, 0.3);
  EXPECT_EQ(reached.outcome, Outcome::kFiltered) << reached.detail;
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(290));
}

// Of a doctor that had no core to look in time.
TEST(Reach, AnAnswerThatIsThereCountsHoweverLate) {
  const OpenPort port = open_port();
  EXPECT_EQ(reach_one({"127.0.0.1", port.port}, 0).outcome, Outcome::kConnected);
}

TEST(Reach, SeveralAtOnceInTheirOrder) {
  const FullSocket full;
  const OpenPort open = open_port();
  std::vector<Target> targets;
  for (int i = 0; i < 20; ++i) targets.push_back({"127.0.0.1", i % 2 == 0 ? full.port : open.port});
  const auto start = Clock::now();
  const std::vector<Reached> reached = reach(targets, 1);
  ASSERT_EQ(reached.size(), targets.size());
  for (std::size_t i = 0; i < reached.size(); ++i)
    EXPECT_EQ(reached[i].outcome, i % 2 == 0 ? Outcome::kFiltered : Outcome::kConnected) << i;
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(9)) << "one after the other takes 10 s";
  EXPECT_GE(longest_reach(targets.size(), 1), 2);
}

TEST(Reach, OutcomesAreReadAsTheyAreWritten) {
  for (int i = 0; i <= static_cast<int>(Outcome::kFailed); ++i)
    EXPECT_EQ(parse_outcome(name(static_cast<Outcome>(i))), static_cast<Outcome>(i));
  EXPECT_FALSE(parse_outcome("fine").has_value());
}

}  // namespace
}  // namespace echelon::doctor
