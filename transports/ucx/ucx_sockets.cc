// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace echelon {
namespace {

constexpr int kDepth = 3;  // worker, interface, connection
constexpr std::size_t kAmple = 1 << 20;

struct Watched {
  int fd;
  unsigned events;
};

// What an epoll watches, from lines "tfd: 7 events: 1b data: ..."; nothing for other descriptors.
std::vector<Watched> watched_by(int epoll) {
  std::vector<Watched> all;
  const std::string text = read_file(fmt::format("/proc/self/fdinfo/{}", epoll));
  for (std::size_t at = text.find("tfd:"); at != std::string::npos;
       at = text.find("tfd:", at + 1)) {
    Watched one{};
    if (std::sscanf(text.c_str() + at, "tfd: %d events: %x", &one.fd, &one.events) == 2)
      all.push_back(one);
  }
  return all;
}

bool is_connection(int fd) {
  int type = 0, listens = 0;
  socklen_t length = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) return false;
  length = sizeof listens;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens == 0;
}

bool takes_bytes(int fd) {
  pollfd room{fd, POLLOUT, 0};
  return poll(&room, 1, 0) != 0;  // errors among it: then sending fails, and does not wait
}

// Calls it with the connections that `epoll`, or an epoll in it, watches.
template <typename Function>
void for_connections(int epoll, const Function& function, int depth = kDepth) {
  for (const Watched& one : watched_by(epoll)) {
    if (is_connection(one.fd)) {
      function(one);
    } else if (depth > 1) {
      for_connections(one.fd, function, depth - 1);
    }
  }
}

// A third of the buffer is free, at least, where poll() tells of room (sk_stream_is_writeable).
std::size_t room_of(int fd) {
  int buffer = 0;
  socklen_t length = sizeof buffer;
  if (!takes_bytes(fd) || getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, &length) != 0) return 0;
  return static_cast<std::size_t>(buffer) / 3;
}

}  // namespace

std::optional<std::size_t> room_of_connections(int epoll) noexcept {
  std::size_t room = kAmple;
  bool all_left = true;
  try {
    for_connections(epoll, [&](const Watched& one) {
      if ((one.events & EPOLLOUT) != 0) all_left = false;
      room = std::min(room, room_of(one.fd));
    });
  } catch (const std::exception&) {  // without /proc nothing is known
  }
  return all_left ? std::optional(room) : std::nullopt;
}

void end_full_connections(int epoll) noexcept {
  try {
    for_connections(epoll, [](const Watched& one) {
      if (!takes_bytes(one.fd)) shutdown(one.fd, SHUT_RDWR);
    });
  } catch (const std::exception&) {  // without /proc it is as it was
  }
}

}  // namespace echelon
