// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/channel.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
// So that one busy rank does not keep the others waiting, nor an abort that wants the lock.
constexpr int kReadsAtOnce = 16;
constexpr int kWritesAtOnce = 16;

}  // namespace

std::string Peer::text() const { return fmt::format("rank {} (host {}, pid {})", rank, host, pid); }

// Ends the sending direction first and takes in what is left: closing a socket with unread bytes
// would make the kernel throw away what it has not delivered yet.
Channel::~Channel() {
  if (!fd_) return;
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<char, kReadBytes> rest;
  for (int i = 0; i < kReadsAtOnce; ++i)
    if (::recv(fd_.get(), rest.data(), rest.size(), MSG_DONTWAIT) <= 0) break;
}

void Channel::send(FrameType type, Payload payload) {
  if (open()) queue_.push_back({type, std::move(payload)});
}

void Channel::send_instead(FrameType type, std::string payload) {
  if (!open()) return;
  payload.resize(std::min(payload.size(), kFramePayloadBytes));
  queue_.clear();
  queue_.push_back({type, std::make_shared<const std::string>(std::move(payload))});
}

void Channel::encode_frame() {
  Outgoing& head = queue_.front();
  const std::string_view rest = std::string_view(*head.payload).substr(head.sent);
  const std::string_view part = rest.substr(0, kFramePayloadBytes);
  const bool last = part.size() == rest.size();
  encoder_.append(head.type, part, last, out_);
  head.sent += part.size();
  if (last) queue_.pop_front();
}

void Channel::drop_unsent() {
  empty(out_);
  out_sent_ = 0;
  queue_.clear();
}

void Channel::flush() {
  for (int i = 0; i < kWritesAtOnce && open() && unsent(); ++i) {
    if (out_.empty()) encode_frame();
    const ssize_t n = ::send(fd_.get(), out_.data() + out_sent_, out_.size() - out_sent_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return drop_unsent();  // receive() will report the end, after what came before it
    out_sent_ += static_cast<std::size_t>(n);
    if (out_sent_ == out_.size()) {
      empty(out_);
      out_sent_ = 0;
    }
  }
}

bool Channel::receive() {
  std::array<char, kReadBytes> bytes;
  for (int i = 0; open() && i < kReadsAtOnce; ++i) {
    const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    if (decoder_) decoder_->feed({bytes.data(), static_cast<std::size_t>(n)});
  }
  return open();
}

std::optional<Message> Channel::next() {
  try {
    return decoder_ ? decoder_->next() : std::nullopt;
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("control connection to {}: {}", peer_.text(), e.what()));
  }
}

}  // namespace echelon
