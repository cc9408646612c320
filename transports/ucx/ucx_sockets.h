// SPDX-License-Identifier: Apache-2.0
// The sockets of UCX's TCP transport, which it does not show.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fd.h"

namespace echelon {

// The connections that an epoll, or one in it, watches.
class WatchedConnections {
 public:
  explicit WatchedConnections(int epoll) : epoll_(epoll) {}

  // How many bytes, as Linux counts them with its own for each packet, the kernel takes at once for
  // every connection. Nothing: one of them is watched for room, so UCX holds bytes for it, or it is
  // not yet connected. A large number where there is no connection or no /proc. Costs some 5 us.
  std::optional<std::size_t> room() noexcept;

 private:
  struct Epoll {
    Fd info;           // /proc/self/fdinfo/N
    std::string text;  // what was last in it
  };

  bool changed();
  void look();

  const int epoll_;
  std::vector<Epoll> epolls_;
  std::vector<pollfd> connections_;
  std::size_t smallest_buffer_ = 0;
  bool any_waits_ = false;
};

// Shuts down the connections that `epoll`, or an epoll in it, watches and that take no more bytes.
// What they have taken is still delivered. When UCX closes an endpoint it sends the peer a few
// bytes, and tries for as long as there is no room for them: where the peer's host is cut off that
// was until the kernel gave the connection up, a quarter of an hour. Never throws.
void end_full_connections(int epoll) noexcept;

}  // namespace echelon
