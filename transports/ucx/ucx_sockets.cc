// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <sstream>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace echelon {
namespace {

constexpr int kDepth = 3;  // worker, interface, connection

// What an epoll watches, from lines "tfd: 7 events: ..."; nothing for other descriptors.
std::vector<int> watched_by(int fd) {
  std::vector<int> all;
  std::istringstream lines(read_file(fmt::format("/proc/self/fdinfo/{}", fd)));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    int watched = -1;
    if (words >> key >> watched && key == "tfd:") all.push_back(watched);
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

void end_full_connections(int epoll, int depth) {
  for (int fd : watched_by(epoll)) {
    if (is_connection(fd)) {
      if (!takes_bytes(fd)) shutdown(fd, SHUT_RDWR);
    } else if (depth > 1) {
      end_full_connections(fd, depth - 1);
    }
  }
}

}  // namespace

void end_full_connections(int epoll) noexcept {
  try {
    end_full_connections(epoll, kDepth);
  } catch (const std::exception&) {  // without /proc it is as it was
  }
}

}  // namespace echelon
