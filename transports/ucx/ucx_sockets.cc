// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "lib/base/fd.h"

namespace echelon {
namespace {

constexpr int kDepth = 3;  // worker, interface, connection
constexpr std::size_t kAmple = 1 << 20;
// Where poll() tells of room, that is a third of the buffer at least (sk_stream_is_writeable).
constexpr std::size_t kShareOfRoom = 3;

struct Watched {
  int fd;
  unsigned events;
};

std::string read_info(int fd) {
  const Fd info(open(fmt::format("/proc/self/fdinfo/{}", fd).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  std::size_t filled = 0;
  while (true) {
    const ssize_t n = pread(info.get(), text.data() + filled, text.size() - filled, filled);
    if (n <= 0) break;
    filled += n;
    if (filled < text.size()) break;  // the kernel writes it all at once
    text.resize(2 * filled);
  }
  text.resize(filled);
  return text;
}

// From lines "tfd: 7 events: 1b data: ..."; nothing for what is not an epoll.
std::vector<Watched> watched_in(const std::string& text) {
  std::vector<Watched> all;
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

bool is_epoll(int fd) {
  char target[64];
  const ssize_t n = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target);
  return n > 0 && std::string_view(target, n) == "anon_inode:[eventpoll]";
}

bool takes_bytes(int fd) {
  pollfd room{fd, POLLOUT, 0};
  return poll(&room, 1, 0) != 0;  // errors among it: then sending fails, and does not wait
}

// Calls on_connection(epoll, watched) with the connections that `epoll`, or one in it, watches.
// False where one of these could not be read.
template <typename OnConnection>
bool visit(int epoll, const OnConnection& on_connection, int depth = kDepth) {
  const std::string text = read_info(epoll);
  bool all_read = !text.empty();
  for (const Watched& one : watched_in(text)) {
    if (is_connection(one.fd)) {
      on_connection(epoll, one);
    } else if (depth > 1 && is_epoll(one.fd)) {
      all_read = visit(one.fd, on_connection, depth - 1) && all_read;
    }
  }
  return all_read;
}

std::size_t buffer_of(int fd) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0 ? bytes : 0;
}

}  // namespace

std::optional<std::size_t> WatchedConnections::look() noexcept {
  connections_.clear();
  watching_.clear();
  smallest_buffer_ = kShareOfRoom * kAmple;
  seen_ = false;
  bool any_waits = false;
  try {
    seen_ = visit(epoll_, [&](int epoll, const Watched& one) {
      connections_.push_back({one.fd, POLLOUT, 0});
      if (watching_.empty() || watching_.back().fd != epoll)
        watching_.push_back({epoll, POLLIN, 0});
      smallest_buffer_ = std::min(smallest_buffer_, buffer_of(one.fd));
      any_waits = any_waits || (one.events & EPOLLOUT) != 0;
    });
  } catch (const std::exception&) {
    return kAmple;
  }
  if (any_waits) return std::nullopt;
  return room();
}

std::size_t WatchedConnections::room() noexcept {
  const int with_room = poll(connections_.data(), connections_.size(), 0);
  return with_room < static_cast<int>(connections_.size()) ? 0 : smallest_buffer_ / kShareOfRoom;
}

// In this order: what takes bytes goes on to do so, for nobody else sends.
std::size_t WatchedConnections::room_if_quiet() noexcept {
  if (!seen_) return 0;
  const std::size_t free = room();
  if (free == 0 || poll(watching_.data(), watching_.size(), 0) != 0) return 0;
  return free;
}

void end_full_connections(int epoll) noexcept {
  try {
    visit(epoll, [](int, const Watched& one) {
      if (!takes_bytes(one.fd)) shutdown(one.fd, SHUT_RDWR);
    });
  } catch (const std::exception&) {  // without /proc it is as it was
  }
}

}  // namespace echelon
