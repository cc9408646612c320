// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/notice.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "lib/base/error.h"
#include "lib/bootstrap/dial.h"
#include "lib/bootstrap/handshake.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDeliveryTime{200};
constexpr std::size_t kDeliveriesAtOnce = 64;

// In the place of the challenge that a Hello answers. No listener makes such a one.
const std::string& no_challenge() {
  static const std::string zeros(kChallengeBytes, '\0');
  return zeros;
}

struct Delivery {
  int seat;
  Fd fd;
};

// True when there is nothing more to do for it.
bool try_to_deliver(const Standby& standby, const Delivery& delivery) {
  pollfd entry{delivery.fd.get(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return false;
  if (dial_error(delivery.fd) != 0) return true;
  const std::string notice = encode_notice(standby, delivery.seat);
  (void)!::send(delivery.fd.get(), notice.data(), notice.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return true;
}

void deliver(const Standby& standby, std::span<const int> seats) {
  std::vector<Delivery> open;
  for (int seat : seats) {
    auto [fd, error] = dial(standby.address(seat), standby.interface);
    if (error == 0) open.push_back({seat, std::move(fd)});
  }
  const Deadline limit = Clock::now() + kDeliveryTime;
  while (!open.empty() && Clock::now() < limit) {
    std::vector<pollfd> sockets;
    for (const Delivery& delivery : open) sockets.push_back({delivery.fd.get(), POLLOUT, 0});
    ::poll(sockets.data(), sockets.size(), milliseconds_until(limit));
    std::erase_if(open, [&](const Delivery& d) { return try_to_deliver(standby, d); });
  }
}

}  // namespace

std::string encode_notice(const Standby& standby, int to) {
  Hello hello;
  hello.size = static_cast<std::uint32_t>(standby.size());
  hello.rank = static_cast<std::uint32_t>(standby.self());
  return encode_hello(standby.notice_key(to), no_challenge(), hello);
}

std::optional<int> decode_notice(const Standby& standby, std::string_view hello) {
  try {
    const Hello notice = decode_hello(standby.notice_key(standby.self()), no_challenge(), hello);
    const auto seats = static_cast<std::uint32_t>(standby.size());
    if (notice.size == seats && notice.rank < seats) return static_cast<int>(notice.rank);
  } catch (const Error&) {
    // No notice.
  }
  return std::nullopt;
}

void leave_notices(const Standby& standby, const std::vector<int>& seats) {
  const std::span<const int> all(seats);
  for (std::size_t at = 0; at < all.size(); at += kDeliveriesAtOnce)
    deliver(standby, all.subspan(at, std::min(kDeliveriesAtOnce, all.size() - at)));
}

}  // namespace echelon
