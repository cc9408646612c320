// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/reception.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "lib/base/error.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAcceptsAtOnce = 64;  // so that in a flood those who are here are heard in between

enum class Progress { kWaiting, kLeft, kComplete };

Progress listen_to(Guest& guest) {
  std::array<char, kHelloBytes> bytes;
  const std::size_t wanted = kHelloBytes - guest.hello.size();
  const ssize_t n = ::recv(guest.fd.get(), bytes.data(), wanted, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return Progress::kWaiting;
  if (n <= 0) return Progress::kLeft;
  guest.hello.append(bytes.data(), static_cast<std::size_t>(n));
  if (!may_be_echelon(guest.hello)) return Progress::kLeft;
  return guest.hello.size() == kHelloBytes ? Progress::kComplete : Progress::kWaiting;
}

}  // namespace

void reply(const Guest& guest, const std::string& bytes) {
  (void)!::send(guest.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::unique_ptr<Channel> welcome(const Secret& secret, Guest& guest, const Hello& hello) {
  reply(guest, encode_verdict(secret, guest.challenge, guest.hello, {}));
  const SessionKeys keys = session_keys(secret, guest.challenge, guest.hello);
  return std::make_unique<Channel>(std::move(guest.fd),
                                   Peer{static_cast<int>(hello.rank), hello.host, hello.pid},
                                   Channel::Keys{keys.from_root, keys.to_root});
}

void Reception::watch(std::vector<pollfd>& sockets) {
  const short wanted = guests_.may_come(Clock::now()) ? POLLIN : 0;
  sockets.push_back({listener_.fd.get(), wanted, 0});
  for (const Guest& guest : guests_.all()) sockets.push_back({guest.fd.get(), POLLIN, 0});
}

Deadline Reception::when() const { return guests_.when(Clock::now()); }

void Reception::serve(const pollfd* sockets, const Judge& judge) {
  hear_guests(sockets + 1, judge);
  accept_guests();
  guests_.expire(Clock::now());
}

void Reception::accept_guests() {
  const Deadline now = Clock::now();
  for (int i = 0; i < kAcceptsAtOnce && guests_.may_come(now); ++i)
    if (!accept_guest(now)) return;
}

// False when there is none.
bool Reception::accept_guest(Deadline now) {
  Guest guest;
  guest.from.length = sizeof guest.from.storage;
  guest.fd = Fd(::accept4(listener_.fd.get(), reinterpret_cast<sockaddr*>(&guest.from.storage),
                          &guest.from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!guest.fd) {
    const int error = errno;
    const bool exhausted =
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (exhausted && !guests_.give_up_place())
      throw system_error("cannot accept ranks at " + listener_.address.text(), error);
    return exhausted;
  }
  const int one = 1;
  ::setsockopt(guest.fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  guest.challenge = encode_challenge();
  if (guests_.add(std::move(guest), now))
    reply(guests_.all().back(), guests_.all().back().challenge);
  return true;
}

// `sockets` are those of the guests, in their order.
void Reception::hear_guests(const pollfd* sockets, const Judge& judge) {
  for (auto guest = guests_.all().begin(); guest != guests_.all().end(); ++sockets) {
    const Progress progress = sockets->revents != 0 ? listen_to(*guest) : Progress::kWaiting;
    if (progress == Progress::kComplete) judge(*guest);
    guest = progress == Progress::kWaiting ? std::next(guest) : guests_.erase(guest);
  }
}

}  // namespace echelon
