// SPDX-License-Identifier: Apache-2.0
// Messages of ranks that have proved who they are, but say what they should not.
#include <sys/socket.h>

#include <array>

#include "lib/base/bytes.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/tcp_control.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

using test::expect_error;
using test::in;
using test::milliseconds;

constexpr milliseconds kSecond{1000};
const Key kToUs = derived_secret("to us"), kFromUs = derived_secret("from us");

// Rank `rank` of two, whose other rank is this test.
class Pair {
 public:
  explicit Pair(int rank) {
    std::array<int, 2> ends;
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw system_error("socketpair");
    other_ = Fd(ends[1]);
    Channels channels;
    channels.push_back(std::make_unique<Channel>(Fd(ends[0]), Peer{1 - rank, "there", 7},
                                                 Channel::Keys{kFromUs, kToUs}));
    Identity identity;
    identity.rank = rank;
    identity.size = 2;
    control = std::make_unique<TcpControl>(identity, std::move(channels));
  }

  void hears(FrameType type, const std::string& payload) {
    std::string frame;
    encoder_.append(type, payload, true, frame);
    ASSERT_EQ(::send(other_.get(), frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
  }
  void ends_with(ech_status code, const std::vector<std::string>& words) {
    expect_error(code, words, kSecond * 5, [&] { control->allgather("x", in(kSecond * 10)); });
  }

  std::unique_ptr<TcpControl> control;

 private:
  Fd other_;
  FrameEncoder encoder_{kToUs};
};

std::string roster() { return ByteWriter().text("a").u32(1).text("b").u32(2).take(); }

TEST(Messages, OnlyRankZeroSaysWhatRankZeroSays) {
  for (const FrameType type : {FrameType::kReady, FrameType::kAsk, FrameType::kNews}) {
    Pair root(0);
    root.hears(type, roster());
    root.ends_with(ECH_ERR_INTERNAL, {"rank 1", "none may send"});
  }
}

TEST(Messages, OnlyTheOthersSayWhatTheySay) {
  for (const FrameType type : {FrameType::kComplaint, FrameType::kReport}) {
    Pair member(1);
    member.hears(FrameType::kReady, roster());
    member.hears(type, "");
    member.ends_with(ECH_ERR_INTERNAL, {"rank 0", "none may send"});
  }
}

TEST(Messages, UnknownTypesEndTheCommunicator) {
  Pair root(0);
  root.hears(static_cast<FrameType>(200), "");
  root.ends_with(ECH_ERR_INTERNAL, {"rank 1", "200"});
}

TEST(Messages, RanksAreIntroducedOnce) {
  Pair member(1);
  member.hears(FrameType::kReady, roster());
  member.hears(FrameType::kReady, roster());
  member.ends_with(ECH_ERR_INTERNAL, {"rank 0", "none may send"});
}

TEST(Messages, AShortListOfRanksIsAnError) {
  Pair member(1);
  member.hears(FrameType::kReady, roster().substr(0, 9));
  member.ends_with(ECH_ERR_INVALID, {"list of ranks"});
}

TEST(Messages, AFailureIsPassedOnInOneLine) {
  Pair root(0);
  root.hears(FrameType::kFailure, encode_failure({ECH_ERR_TIMEOUT, "rank 1\nis late"}));
  root.ends_with(ECH_ERR_TIMEOUT, {"rank 1?is late"});
}

}  // namespace
}  // namespace echelon
