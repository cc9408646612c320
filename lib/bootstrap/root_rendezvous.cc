// SPDX-License-Identifier: Apache-2.0
// Rank 0's side: accepts connections, tells ranks from strangers, and waits until all have come.
// Strangers cost a socket each, at most kMostGuests and each for at most kGuestPatience, and
// nothing they send is looked at beyond the fixed bytes of one Hello. When there are more, the
// oldest goes, but not before kGuestTurn: many ranks that come at once must not push each other
// out.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <list>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/rendezvous.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostGuests = 256;
constexpr std::chrono::seconds kGuestPatience{5};
constexpr std::chrono::milliseconds kGuestTurn{200};
constexpr std::chrono::milliseconds kFarewell{100};  // for the reason to reach the other ranks

// A connection that has proved nothing yet.
struct Guest {
  Fd fd;
  Address from;
  Deadline since;
  std::string challenge;
  std::string hello;  // as far as it has come
};

enum class Progress { kWaiting, kLeft, kComplete };

void reply(const Guest& guest, const std::string& bytes) {
  // The socket's buffer is empty, so this is taken whole; if not, the guest sees the closing.
  (void)!::send(guest.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

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

class Rendezvous {
 public:
  Rendezvous(const Identity& identity, const JoinOptions& options)
      : identity_(identity),
        options_(options),
        listener_(identity.id ? take_listener(*identity.id)
                              : listen_at(identity.host, identity.port, options.interface)),
        channels_(identity.size - 1) {}

  Channels run() {
    try {
      while (joined_ + 1 < identity_.size) step();
    } catch (const Error& e) {
      tell_all(e);
      throw;
    }
    listener_.stop();
    return std::move(channels_);
  }

 private:
  void step();
  Deadline next_deadline() const;
  bool crowded() const;
  void accept_guests();
  void make_room();
  void hear_guests();
  void judge(Guest& guest);
  void stranger(const Guest& guest);
  std::string objection(const Hello& hello) const;
  void admit(Guest& guest, const Hello& hello);
  void hear_rank(Channel& channel);
  Error too_late() const;
  void tell_all(const Error& error);

  const Identity& identity_;
  const JoinOptions& options_;
  const Deadline start_ = Clock::now();
  Listener listener_;
  std::list<Guest> guests_;  // oldest first
  Channels channels_;        // of rank i + 1; null until it has come
  int joined_ = 0;
  int strangers_ = 0;
  std::string last_stranger_;
};

void Rendezvous::step() {
  std::vector<pollfd> sockets = {
      {listener_.fd.get(), static_cast<short>(crowded() ? 0 : POLLIN), 0}};
  for (const Guest& guest : guests_) sockets.push_back({guest.fd.get(), POLLIN, 0});
  const std::size_t first_rank = sockets.size();
  std::vector<Channel*> ranks;
  for (const auto& channel : channels_) {
    if (!channel) continue;
    sockets.push_back({channel->fd(), POLLIN, 0});
    ranks.push_back(channel.get());
  }
  ::poll(sockets.data(), sockets.size(), milliseconds_until(next_deadline()));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (sockets[first_rank + i].revents != 0) hear_rank(*ranks[i]);
  hear_guests();
  accept_guests();
  const Deadline now = Clock::now();
  guests_.remove_if([now](const Guest& guest) { return guest.since + kGuestPatience <= now; });
  if (joined_ + 1 < identity_.size && now >= options_.deadline) throw too_late();
}

bool Rendezvous::crowded() const {
  return guests_.size() >= kMostGuests && guests_.front().since + kGuestTurn > Clock::now();
}

Deadline Rendezvous::next_deadline() const {
  if (guests_.empty()) return options_.deadline;
  const Deadline oldest = guests_.front().since;
  return std::min(options_.deadline, crowded() ? oldest + kGuestTurn : oldest + kGuestPatience);
}

void Rendezvous::accept_guests() {
  while (!crowded()) {
    Guest guest;
    guest.from.length = sizeof guest.from.storage;
    guest.fd = Fd(::accept4(listener_.fd.get(), reinterpret_cast<sockaddr*>(&guest.from.storage),
                            &guest.from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!guest.fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) make_room();
      return;
    }
    const int one = 1;
    ::setsockopt(guest.fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    guest.since = Clock::now();
    guest.challenge = encode_challenge();
    reply(guest, guest.challenge);
    if (guests_.size() >= kMostGuests) guests_.pop_front();
    guests_.push_back(std::move(guest));
  }
}

// No descriptor is left for a guest that waits: the oldest must go, or it will never be accepted.
void Rendezvous::make_room() {
  const int error = errno;
  if (guests_.empty())
    throw system_error(fmt::format("rank 0 cannot accept more ranks, {} have come", joined_ + 1),
                       error);
  guests_.pop_front();
}

void Rendezvous::hear_guests() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const Progress progress = listen_to(*guest);
    if (progress == Progress::kComplete) judge(*guest);
    guest = progress == Progress::kWaiting ? std::next(guest) : guests_.erase(guest);
  }
}

void Rendezvous::judge(Guest& guest) {
  Hello hello;
  try {
    hello = decode_hello(identity_.secret, guest.challenge, guest.hello);
  } catch (const Error&) {
    return stranger(guest);
  }
  const std::string reason = objection(hello);
  if (reason.empty()) return admit(guest, hello);
  const std::string text = fmt::format("rank {} at {} (host {}, pid {}) {}", hello.rank,
                                       guest.from.text(), hello.host, hello.pid, reason);
  reply(guest,
        encode_verdict(identity_.secret, guest.challenge, guest.hello, {ECH_ERR_INVALID, text}));
  throw invalid(text);
}

// Once in the log: whoever knocks without the secret must not be able to fill it.
void Rendezvous::stranger(const Guest& guest) {
  reply(guest, encode_refusal());
  last_stranger_ = guest.from.text();
  if (strangers_++ == 0)
    options_.log(ECH_LOG_WARN,
                 fmt::format("rank 0 refused {}: it does not know the job's secret; still waiting "
                             "for {} ranks (said once)",
                             last_stranger_, identity_.size - 1 - joined_));
}

std::string Rendezvous::objection(const Hello& hello) const {
  if (hello.version != options_.version)
    return fmt::format("runs {}, rank 0 runs {}", hello.version.text(), options_.version.text());
  const auto size = static_cast<std::uint32_t>(identity_.size);
  if (hello.size != size)
    return fmt::format("says that there are {} ranks, rank 0 was told {}", hello.size, size);
  if (hello.rank >= size) return fmt::format("is not one of the ranks 1-{}", size - 1);
  if (hello.rank == 0) return "says that it is rank 0, which is here already";
  if (const auto& other = channels_[hello.rank - 1])
    return fmt::format("came twice: first from host {}, pid {}", other->peer().host,
                       other->peer().pid);
  return "";
}

void Rendezvous::admit(Guest& guest, const Hello& hello) {
  reply(guest, encode_verdict(identity_.secret, guest.challenge, guest.hello, {}));
  const SessionKeys keys = session_keys(identity_.secret, guest.challenge, guest.hello);
  channels_[hello.rank - 1] = std::make_unique<Channel>(
      std::move(guest.fd), Peer{static_cast<int>(hello.rank), hello.host, hello.pid},
      Channel::Keys{keys.from_root, keys.to_root});
  ++joined_;
}

// Ranks that have come have nothing to say yet, unless they give up.
void Rendezvous::hear_rank(Channel& channel) {
  const bool open = channel.receive();
  while (const auto message = channel.next())
    if (message->type == FrameType::kFailure) throw decode_failure(message->payload);
  if (!open) throw Error(ECH_ERR_PEER, channel.peer().text() + " left before all ranks had come");
}

Error Rendezvous::too_late() const {
  std::vector<int> missing;
  for (int rank = 1; rank < identity_.size; ++rank)
    if (!channels_[rank - 1]) missing.push_back(rank);
  std::string text = fmt::format("creation timed out after {}: {} of {} did not reach rank 0 at {}",
                                 seconds_since(start_), rank_list(missing), identity_.size,
                                 listener_.address.text());
  if (strangers_ > 0)
    text += fmt::format("; {} connections did not know the job's secret, the last from {}",
                        strangers_, last_stranger_);
  return {ECH_ERR_TIMEOUT, text};
}

void Rendezvous::tell_all(const Error& error) {
  listener_.stop();
  const Deadline limit = Clock::now() + kFarewell;
  for (const auto& channel : channels_) {
    if (!channel) continue;
    channel->send_instead(FrameType::kFailure, encode_failure(error));
    do channel->flush();
    while (channel->unsent() && Clock::now() < limit);
  }
}

}  // namespace

Channels await_ranks(const Identity& identity, const JoinOptions& options) {
  return Rendezvous(identity, options).run();
}

}  // namespace echelon
