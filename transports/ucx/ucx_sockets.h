// SPDX-License-Identifier: Apache-2.0
// The sockets of UCX's TCP transport, which it does not show.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace echelon {

// The connections that an epoll, or one in it, watches.
class WatchedConnections {
 public:
  explicit WatchedConnections(int epoll) : epoll_(epoll) {}

  // Finds out which there are, and how many bytes, as Linux counts them with its own for each
  // packet, the kernel takes at once for every one. Nothing: one of them is watched for room, so
  // UCX holds bytes for it, or it is not yet connected. A large number where there is no connection
  // or no /proc. Costs some 10 us.
  std::optional<std::size_t> look() noexcept;

  // The same for those that there were then, where all take bytes and the epolls that watch them
  // have nothing to tell: one that was watched for room would. Else 0. Costs some 1 us.
  std::size_t room_if_quiet() noexcept;

 private:
  std::size_t room() noexcept;

  const int epoll_;
  std::vector<pollfd> connections_;
  std::vector<pollfd> watching_;  // epolls of connections
  std::size_t smallest_buffer_ = 0;
  bool seen_ = false;
};

// Shuts down the connections that `epoll`, or an epoll in it, watches and that take no more bytes.
// What they have taken is still delivered. When UCX closes an endpoint it sends the peer a few
// bytes, and tries for as long as there is no room for them: where the peer's host is cut off that
// was until the kernel gave the connection up, a quarter of an hour. Never throws.
void end_full_connections(int epoll) noexcept;

}  // namespace echelon
