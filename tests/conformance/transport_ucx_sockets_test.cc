// SPDX-License-Identifier: Apache-2.0
// What is told of connections, and that those that are full are ended.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "lib/base/fd.h"
#include "transports/ucx/ucx_sockets.h"

namespace echelon {
namespace {

struct Connection {
  Fd mine, theirs;
};

class Connections : public testing::Test {
 protected:
  void SetUp() override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(listener_.get(), generic, length), 0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
    ASSERT_EQ(getsockname(listener_.get(), generic, &length), 0);
    for (Connection* c : {&full_, &roomy_}) {
      c->mine = Fd(socket(AF_INET, SOCK_STREAM, 0));
      ASSERT_EQ(connect(c->mine.get(), generic, length), 0);
      c->theirs = Fd(accept(listener_.get(), nullptr, nullptr));
      fcntl(c->mine.get(), F_SETFL, O_NONBLOCK);
      watch(inner_, c->mine);
    }
    watch(inner_, listener_);
    watch(outer_, inner_);
  }

  static void watch(const Fd& epoll, const Fd& fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &event), 0);
  }

  // Until the kernel takes no more; how many bytes that were.
  static std::size_t fill(const Fd& fd) {
    const std::vector<char> bytes(1 << 20);
    std::size_t taken = 0;
    for (ssize_t n = 0; n >= 0; taken += n > 0 ? n : 0)
      n = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_EQ(errno, EAGAIN);
    return taken;
  }

  Fd listener_{socket(AF_INET, SOCK_STREAM, 0)};
  Fd outer_{epoll_create1(0)}, inner_{epoll_create1(0)};
  Connection full_, roomy_;
};

TEST_F(Connections, ThatAreFullAreEndedAndOthersAreNot) {
  const std::size_t taken = fill(full_.mine);
  end_full_connections(outer_.get());
  EXPECT_EQ(send(full_.mine.get(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(send(roomy_.mine.get(), "x", 1, MSG_NOSIGNAL), 1);
  std::vector<char> sink(1 << 20);
  std::size_t arrived = 0;
  for (ssize_t n = 1; n > 0; arrived += n > 0 ? n : 0)
    n = recv(full_.theirs.get(), sink.data(), sink.size(), 0);
  EXPECT_EQ(arrived, taken) << "what it held is delivered";
}

TEST_F(Connections, TellHowMuchTheyTakeAtOnce) {
  const std::optional<std::size_t> room = WatchedConnections(outer_.get()).look();
  ASSERT_TRUE(room);
  EXPECT_GT(*room, 1000u);
  EXPECT_LE(*room, fill(full_.mine));
  EXPECT_EQ(WatchedConnections(outer_.get()).look(), 0u) << "full, but nothing waits for it";
}

TEST_F(Connections, TellThatSomethingWaitsForRoom) {
  fill(full_.mine);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT;
  ASSERT_EQ(epoll_ctl(inner_.get(), EPOLL_CTL_MOD, full_.mine.get(), &event), 0);
  EXPECT_FALSE(WatchedConnections(outer_.get()).look());
}

TEST_F(Connections, HaveRoomWhereAllAreQuiet) {
  WatchedConnections connections(outer_.get());
  EXPECT_EQ(connections.room_if_quiet(), 0u) << "not known yet";
  const std::optional<std::size_t> room = connections.look();
  ASSERT_TRUE(room);
  EXPECT_EQ(connections.room_if_quiet(), *room);
  EXPECT_EQ(send(roomy_.theirs.get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(connections.room_if_quiet(), 0u) << "something has come";
  char byte = 0;
  EXPECT_EQ(recv(roomy_.mine.get(), &byte, 1, 0), 1);
  EXPECT_EQ(connections.room_if_quiet(), *room);
  fill(full_.mine);
  EXPECT_EQ(connections.room_if_quiet(), 0u) << "one is full";
}

TEST_F(Connections, AreNotQuietWhereOneWithRoomWaitsForThat) {
  WatchedConnections connections(outer_.get());
  ASSERT_TRUE(connections.look());
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT;
  ASSERT_EQ(epoll_ctl(inner_.get(), EPOLL_CTL_MOD, full_.mine.get(), &event), 0);
  EXPECT_EQ(connections.room_if_quiet(), 0u);
  EXPECT_FALSE(connections.look());
}

TEST_F(Connections, AreNoneWhereThereIsNoEpoll) {
  WatchedConnections none(-1);
  EXPECT_TRUE(none.look());
  EXPECT_EQ(none.room_if_quiet(), 0u) << "looks again";
  end_full_connections(-1);
  end_full_connections(roomy_.mine.get());
  EXPECT_EQ(send(roomy_.mine.get(), "x", 1, MSG_NOSIGNAL), 1);
}

}  // namespace
}  // namespace echelon
