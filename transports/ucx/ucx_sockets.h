// SPDX-License-Identifier: Apache-2.0
// The sockets of UCX's TCP transport, which it does not show.
#pragma once

#include <cstddef>
#include <optional>

namespace echelon {

// How many bytes, as Linux counts them with its own for each packet, the kernel takes at once for
// every connection that `epoll`, or an epoll in it, watches. Nothing: one of them is watched for
// room, so UCX holds bytes for it, or it is not yet connected. A large number where there is no
// connection or no /proc. Takes some 10 us for a few connections.
std::optional<std::size_t> room_of_connections(int epoll) noexcept;

// Shuts down the connections that `epoll`, or an epoll in it, watches and that take no more bytes.
// What they have taken is still delivered. When UCX closes an endpoint it sends the peer a few
// bytes, and tries for as long as there is no room for them: where the peer's host is cut off that
// was until the kernel gave the connection up, a quarter of an hour. Never throws.
void end_full_connections(int epoll) noexcept;

}  // namespace echelon
