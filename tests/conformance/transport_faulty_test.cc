// SPDX-License-Identifier: Apache-2.0
// Without faults the decorator is a transport like any other; with them it does what they say.
#include <unistd.h>

#include "tests/conformance/transport_suite.h"
#include "transports/faulty/faulty.h"
#include "transports/loopback/loopback_transport.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TransportKind faultless() {
  return {"loopback", false, [] { return with_faults(open_loopback(), {}); }};
}

TransportKind slow() {
  return {"delayed", false, [] { return with_faults(open_loopback(), parse_faults("delay 1ms")); }};
}

INSTANTIATE_TEST_SUITE_P(Faulty, TransportSuite, testing::Values(faultless(), slow()), kind_name);

// Two ranks driven by one thread; rank 0 has the faults.
class FaultTest : public testing::Test {
 protected:
  void connect(const std::string& script) {
    auto faulty = with_faults(open_loopback(), parse_faults(script));
    auto plain = open_loopback();
    const std::vector<std::string> addresses = {faulty->address(), plain->address()};
    faulty_ = faulty->connect(0, addresses);
    plain_ = plain->connect(1, addresses);
  }

  // Moves both until the completion is done or a while has passed.
  bool settles(const Completion& completion, milliseconds limit = milliseconds(50)) {
    const auto deadline = Clock::now() + limit;
    while (!completion.done && Clock::now() < deadline) {
      faulty_->progress();
      plain_->progress();
    }
    return completion.done;
  }

  void exchange(Tag tag) {
    Completion sent;
    Completion received;
    std::byte in{0};
    faulty_->send(1, tag, {&value_, 1}, sent);
    plain_->receive(0, tag, {&in, 1}, received);
    ASSERT_TRUE(settles(sent) && settles(received));
    EXPECT_EQ(in, value_);
  }

  std::byte value_{7};
  std::byte other_{0};
  Completion sent_;
  Completion received_;
  std::unique_ptr<Transport> faulty_;
  std::unique_ptr<Transport> plain_;
};

TEST_F(FaultTest, DelayHoldsMessagesBackAndWakesForThem) {
  connect("delay 30ms peer 1");
  const auto start = Clock::now();
  plain_->receive(0, 1, {&other_, 1}, received_);
  faulty_->send(1, 1, {&value_, 1}, sent_);
  while (!received_.done) {
    while (faulty_->progress() || plain_->progress() || !faulty_->arm()) {
    }
    if (!received_.done && Clock::now() - start < milliseconds(29)) {
      faulty_->sleep(std::chrono::seconds(5));
    }
    faulty_->disarm();
  }
  EXPECT_GE(Clock::now() - start, milliseconds(29));
  EXPECT_LT(Clock::now() - start, milliseconds(2000));
}

TEST_F(FaultTest, DropLosesMessagesWithoutSayingSo) {
  connect("drop after 2 messages");
  exchange(1);
  exchange(2);
  plain_->receive(0, 3, {&other_, 1}, received_);
  faulty_->send(1, 3, {&value_, 1}, sent_);
  EXPECT_TRUE(settles(sent_));
  EXPECT_EQ(sent_.status, ECH_OK);
  EXPECT_FALSE(settles(received_));
  EXPECT_EQ(faulty_->counters().messages, 3u);
}

TEST_F(FaultTest, CutStopsBothDirectionsSilently) {
  connect("cut after 2 bytes");
  exchange(1);
  exchange(2);
  Completion back;
  faulty_->receive(1, 9, {&other_, 1}, back);
  faulty_->send(1, 3, {&value_, 1}, sent_);  // the third byte
  plain_->send(0, 9, {&value_, 1}, received_);
  EXPECT_FALSE(settles(sent_));
  EXPECT_FALSE(settles(back));
  faulty_->abort();
  EXPECT_TRUE(settles(sent_) && settles(back));
  EXPECT_EQ(sent_.status, ECH_ERR_ABORTED);
  EXPECT_EQ(back.status, ECH_ERR_ABORTED);
  EXPECT_EQ(other_, std::byte{0});
}

TEST_F(FaultTest, FailEndsWhatIsPendingAndLater) {
  connect("fail peer 1 after 1 messages");
  faulty_->receive(1, 9, {&other_, 1}, received_);
  exchange(1);
  EXPECT_FALSE(received_.done);
  faulty_->send(1, 2, {&value_, 1}, sent_);
  ASSERT_TRUE(settles(sent_) && settles(received_));
  EXPECT_EQ(sent_.status, ECH_ERR_PEER);
  EXPECT_EQ(received_.status, ECH_ERR_PEER);
  EXPECT_EQ(received_.peer, 1);
}

TEST_F(FaultTest, OtherPeersAreLeftAlone) {
  connect("fail peer 5; cut peer 5; drop peer 5");
  exchange(1);
}

TEST(FaultScriptTest, ReadsWhatTheHeaderSays) {
  const FaultScript script = parse_faults(
      "delay 20ms; drop peer 2 after 3 messages; cut peer 1 after 65536 bytes; fail peer 0;");
  ASSERT_EQ(script.size(), 4u);
  EXPECT_EQ(script[0].kind, FaultKind::kDelay);
  EXPECT_EQ(script[0].peer, -1);
  EXPECT_EQ(script[0].delay, milliseconds(20));
  EXPECT_EQ(script[1].kind, FaultKind::kDrop);
  EXPECT_EQ(script[1].peer, 2);
  EXPECT_EQ(script[1].after_messages, 3u);
  EXPECT_EQ(script[2].kind, FaultKind::kCut);
  EXPECT_EQ(script[2].after_bytes, 65536u);
  EXPECT_EQ(script[3].kind, FaultKind::kFail);
  EXPECT_TRUE(parse_faults(" ; ").empty());
}

TEST(FaultScriptTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"explode", "delay", "delay 5", "delay ms", "delay 5h", "drop peer",
                           "drop peer -1", "cut after", "cut after 3", "cut after 3 times",
                           "fail peer 99999999", "fail soon", "drop after 1e9 bytes"}) {
    EXPECT_THROW(parse_faults(text), Error) << text;
  }
}

}  // namespace
}  // namespace echelon::test
