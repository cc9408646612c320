// SPDX-License-Identifier: Apache-2.0
// Plain TCP sockets between the hosts of a floor.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "echelon/echelon.hpp"
#include "lib/base/fd.h"

namespace echelon {

inline constexpr std::chrono::seconds kLimit{30};  // for what does not move

inline int checked(int result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
  return result;
}

// The first address of this host that others may reach, with port 0.
inline sockaddr_in own_address() {
  ifaddrs* list = nullptr;
  checked(getifaddrs(&list), "getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const bool usable = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address;
    std::memcpy(&address, at->ifa_addr, sizeof address);
    address.sin_port = 0;
    return address;
  }
  throw std::runtime_error("this host has no address but that of its loopback");
}

// A connection to each of the hosts from which the number of this one differs in one bit, of the
// host's first rank. Not of others.
class Links {
 public:
  explicit Links(ech::Communicator& comm) : self_(comm.host_index()), hosts_(comm.host_count()) {
    if (hosts_ < 2 || !std::has_single_bit(static_cast<unsigned>(hosts_)))
      throw std::runtime_error(fmt::format("2, 4, 8 ... hosts are needed, not {}", hosts_));
    const bool leads = comm.local_rank() == 0;
    Fd door;
    std::vector<std::int64_t> addresses(hosts_);
    if (leads) addresses[self_] = listen(door);
    comm.allreduce(addresses.data(), addresses.data(), addresses.size(), ECH_MAX);
    if (leads) connect(door, addresses);
  }

  // Sends, and receives as many bytes, with the host that differs in that bit.
  void exchange(int bit, std::span<const std::byte> out, std::byte* in) {
    const int fd = to_[bit].get();
    const std::size_t bytes = out.size();
    std::size_t sent = 0, received = 0;
    // No wake for less than all; what the kernel does not hold at once comes in parts.
    const int all = static_cast<int>(std::min<std::size_t>(bytes, 256 << 10));
    checked(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &all, sizeof all), "SO_RCVLOWAT");
    while (true) {
      if (sent < bytes) sent += moved(send(fd, out.data() + sent, bytes - sent, MSG_NOSIGNAL));
      if (sent == bytes && received == bytes) return;
      const int wanted = (sent < bytes ? POLLOUT : 0) | (received < bytes ? POLLIN : 0);
      if ((news_of(fd, wanted) & ~POLLOUT) == 0) continue;
      received += moved(recv(fd, in + received, bytes - received, 0));
      const std::size_t rest = bytes - received;
      if (rest == 0 || rest >= static_cast<std::size_t>(all)) continue;
      const int less = static_cast<int>(rest);
      checked(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &less, sizeof less), "SO_RCVLOWAT");
    }
  }

  int bits() const { return static_cast<int>(to_.size()); }

 private:
  static int news_of(int fd, int wanted) {
    pollfd one{fd, static_cast<short>(wanted), 0};
    const auto limit = std::chrono::milliseconds(kLimit).count();
    if (checked(poll(&one, 1, static_cast<int>(limit)), "poll") == 0)
      throw std::runtime_error(fmt::format("nothing moved for {} s", kLimit.count()));
    return one.revents;
  }

  static std::size_t moved(ssize_t bytes) {
    if (bytes < 0 && errno == EAGAIN) return 0;
    if (bytes == 0) throw std::runtime_error("another host has ended the connection");
    return checked(static_cast<int>(bytes), "send or recv");
  }

  static std::int64_t listen(Fd& door) {
    sockaddr_in address = own_address();
    door = Fd(checked(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    checked(bind(door.get(), general, size), "bind");
    checked(::listen(door.get(), 16), "listen");
    checked(getsockname(door.get(), general, &size), "getsockname");
    return std::int64_t{address.sin_addr.s_addr} << 16 | address.sin_port;
  }

  // The lower number connects, and says which it is.
  void connect(const Fd& door, const std::vector<std::int64_t>& addresses) {
    to_.resize(std::bit_width(static_cast<unsigned>(hosts_)) - 1);
    for (int bit = 0; bit < bits(); ++bit) {
      const int peer = self_ ^ 1 << bit;
      if (peer > self_) to_[bit] = dial(addresses[peer], bit);
    }
    for (int i = std::popcount(static_cast<unsigned>(self_)); i > 0; --i) {
      Fd fd(checked(accept(door.get(), nullptr, nullptr), "accept"));
      char bit = 0;
      if (recv(fd.get(), &bit, 1, 0) != 1)
        throw std::runtime_error("a host does not say who it is");
      to_[bit] = std::move(fd);
    }
    const int on = 1;
    for (const Fd& fd : to_) {
      checked(setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
      checked(fcntl(fd.get(), F_SETFL, O_NONBLOCK), "O_NONBLOCK");
    }
  }

  static Fd dial(std::int64_t packed, char bit) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = static_cast<in_addr_t>(packed >> 16);
    address.sin_port = static_cast<in_port_t>(packed & 0xffff);
    Fd fd(checked(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    checked(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
    if (send(fd.get(), &bit, 1, 0) != 1) throw std::runtime_error("cannot say who this host is");
    return fd;
  }

  const int self_, hosts_;
  std::vector<Fd> to_;  // by bit; none where no rank of this host
};

}  // namespace echelon
