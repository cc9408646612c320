// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/standby_call.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "lib/base/error.h"
#include "lib/bootstrap/dial.h"
#include "lib/bootstrap/door.h"
#include "lib/bootstrap/rendezvous.h"

namespace echelon {
namespace {

constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kFirstPatience{500};

// Two free ports of one machine can be connected to each other by chance: then nobody listens.
bool connected_to_itself(const Fd& fd) {
  Address other;
  other.length = sizeof other.storage;
  if (::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&other.storage), &other.length) != 0)
    return false;
  return own_address(fd.get()).text() == other.text();
}

}  // namespace

StandbyCall::StandbyCall(const Standby& standby, int seat, std::chrono::nanoseconds again)
    : standby_(standby),
      seat_(seat),
      key_(standby.door_key(seat)),
      again_(again),
      patience_(kFirstPatience) {}

void StandbyCall::begin(Deadline now) {
  state_ = State::kSilent;
  retry_at_ = now + patience_;
  connected_ = false;
  input_.clear();
  challenge_.clear();
  auto [fd, error] = dial(standby_.address(seat_), standby_.interface);
  fd_ = std::move(fd);
  if (error != 0) pause(now);
  if (error == ECONNREFUSED) state_ = State::kNotThere;
}

void StandbyCall::pause(Deadline now) {
  fd_ = Fd();
  retry_at_ = now + kPause;
}

pollfd StandbyCall::watched() const {
  return {fd_.get(), static_cast<short>(connected_ ? POLLIN : POLLOUT), 0};
}

StandbyCall::State StandbyCall::advance(Deadline now) {
  if (now >= retry_at_) {
    if (fd_ && state_ == State::kSilent) patience_ *= 2;
    begin(now);
  }
  if (!fd_) return state_;
  pollfd entry = watched();
  if (::poll(&entry, 1, 0) <= 0) return state_;
  if (connected_) {
    read(now);
    return state_;
  }
  const int error = dial_error(fd_);
  connected_ = error == 0;
  if (error == ECONNREFUSED || (connected_ && connected_to_itself(fd_)))
    state_ = State::kNotThere;
  else if (error != 0)
    pause(now);
  return state_;
}

void StandbyCall::read(Deadline now) {
  std::array<char, kVerdictBytes> bytes;
  const std::size_t wanted = challenge_.empty() ? kChallengeBytes : kVerdictBytes;
  const ssize_t n = ::recv(fd_.get(), bytes.data(), wanted - input_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return;
  if (n <= 0) return pause(now);
  input_.append(bytes.data(), static_cast<std::size_t>(n));
  if (!may_be_echelon(input_))
    state_ = State::kNotThere;
  else if (input_.size() == wanted)
    understand(now);
}

void StandbyCall::understand(Deadline now) {
  const std::string message = std::exchange(input_, {});
  if (challenge_.empty()) {
    challenge_ = message;
    return answer_challenge(now);
  }
  try {
    obey_verdict(decode_verdict(key_, challenge_, hello_, message), now);
  } catch (const Error&) {
    state_ = State::kNotThere;  // a rank of another communicator
  }
}

void StandbyCall::answer_challenge(Deadline now) {
  Hello hello;
  hello.size = static_cast<std::uint32_t>(standby_.size());
  hello.rank = static_cast<std::uint32_t>(standby_.self());
  hello.pid = static_cast<std::uint32_t>(::getpid());
  hello.host = host_name();
  hello_ = encode_hello(key_, challenge_, hello);
  const ssize_t n = ::send(fd_.get(), hello_.data(), hello_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(hello_.size())) pause(now);
}

void StandbyCall::obey_verdict(const Verdict& verdict, Deadline now) {
  if (verdict.status == kNotNow) {
    state_ = State::kLives;
    retry_at_ = now + again_;
    return;
  }
  if (verdict.status != ECH_OK) {
    state_ = verdict.status == kLeftOut ? State::kLeftOut : State::kNotThere;
    return;
  }
  const SessionKeys keys = session_keys(key_, challenge_, hello_);
  channel_ =
      std::make_unique<Channel>(std::move(fd_), Peer{seat_, standby_.address(seat_).host(), 0},
                                Channel::Keys{keys.to_root, keys.from_root});
  state_ = State::kLetIn;
}

}  // namespace echelon
