// SPDX-License-Identifier: Apache-2.0
// The other ranks' side: connects to rank 0, again and again until it is there, and proves itself.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "lib/base/error.h"
#include "lib/bootstrap/dial.h"
#include "lib/bootstrap/rendezvous.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{50};
constexpr std::chrono::seconds kConnectPatience{3};  // then the next address is tried

// Worth another attempt: rank 0 may not be there yet. Caught in this file only.
struct TryAgain {
  std::string why;
  bool refused = false;
  bool no_port = false;
};

void await_socket(const Fd& fd, short events, const JoinOptions& options, const char* what) {
  for (;;) {
    Deadline wake = options.deadline;
    if (options.check) {
      options.check();
      wake = std::min(wake, Clock::now() + kCheckPeriod);
    }
    pollfd entry{fd.get(), events, 0};
    if (::poll(&entry, 1, milliseconds_until(wake)) > 0) return;
    if (Clock::now() >= options.deadline) throw TryAgain{what};
  }
}

Fd connect_to(const Address& root, const JoinOptions& options) {
  auto [fd, error] = dial(root, options.interface);
  if (error == 0) {
    JoinOptions patience = options;
    patience.deadline = std::min(options.deadline, Clock::now() + kConnectPatience);
    await_socket(fd, POLLOUT, patience, "no answer to a connection request");
    error = dial_error(fd);
  }
  if (error == EADDRNOTAVAIL)
    throw TryAgain{system_error("cannot connect", error).what(), false, true};
  if (error != 0) throw TryAgain{std::strerror(error), error == ECONNREFUSED};
  return std::move(fd);
}

std::string read_bytes(const Fd& fd, std::size_t size, const JoinOptions& options) {
  std::string bytes(size, '\0');
  for (std::size_t have = 0; have < size;) {
    await_socket(fd, POLLIN, options, "the connection was accepted, but rank 0 does not answer");
    const ssize_t n = ::recv(fd.get(), bytes.data() + have, size - have, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) throw TryAgain{std::strerror(errno)};
    if (n == 0) throw TryAgain{"rank 0 closed the connection before it answered"};
    have += static_cast<std::size_t>(n);
    if (!may_be_echelon(std::string_view(bytes).substr(0, have)))
      throw Error(ECH_ERR_AUTH, "what listens there is not an Echelon rank 0");
  }
  return bytes;
}

class Member {
 public:
  Member(const Identity& identity, const JoinOptions& options)
      : identity_(identity), options_(options) {}

  std::unique_ptr<Channel> run();

 private:
  std::unique_ptr<Channel> attempt(const Address& root);
  std::unique_ptr<Channel> introduce(Fd fd);
  Error give_up() const;

  const Identity& identity_;
  const JoinOptions& options_;
  const Deadline start_ = Clock::now();
  TryAgain last_;
  std::string no_port_;  // told even where ports are free again when all have given up
};

std::unique_ptr<Channel> Member::run() {
  const std::vector<Address> addresses = resolve(identity_.host, identity_.port);
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (options_.check) options_.check();
    for (const Address& root : addresses)
      if (auto channel = attempt(root)) return channel;
    const bool gone = identity_.id && last_.refused;  // it listened before the id was known
    if (gone || Clock::now() + pause >= options_.deadline) throw give_up();
    std::this_thread::sleep_for(pause);
  }
}

std::unique_ptr<Channel> Member::attempt(const Address& root) {
  try {
    return introduce(connect_to(root, options_));
  } catch (const TryAgain& again) {
    last_ = again;
    if (again.no_port) no_port_ = again.why;
    return nullptr;
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("rank {} cannot join rank 0 at {}: {}", identity_.rank,
                                      root.text(), e.what()));
  }
}

std::unique_ptr<Channel> Member::introduce(Fd fd) {
  const std::string challenge = read_bytes(fd, kChallengeBytes, options_);
  const Peer me = self(identity_);
  const std::string hello =
      encode_hello(identity_.secret, challenge,
                   {options_.version, static_cast<std::uint32_t>(identity_.size),
                    static_cast<std::uint32_t>(identity_.rank), me.pid, me.host});
  if (::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != ssize_t(hello.size()))
    throw TryAgain{"rank 0 closed the connection"};
  const std::string answer = read_bytes(fd, kVerdictBytes, options_);
  const Verdict verdict = decode_verdict(identity_.secret, challenge, hello, answer);
  if (verdict.status != ECH_OK) throw Error(verdict.status, verdict.text);
  const SessionKeys keys = session_keys(identity_.secret, challenge, hello);
  return std::make_unique<Channel>(std::move(fd), Peer{0, identity_.host, 0},
                                   Channel::Keys{keys.to_root, keys.from_root});
}

Error Member::give_up() const {
  const std::string before =
      no_port_.empty() || last_.no_port ? "" : fmt::format(" (before that: {})", no_port_);
  const std::string where = fmt::format("{} port {}", identity_.host, identity_.port);
  if (identity_.id && last_.refused)
    return {ECH_ERR_PEER,
            fmt::format("rank {} cannot join: rank 0 no longer listens at {}; it failed, or all "
                        "{} ranks came already (is a rank used twice, or the id?)",
                        identity_.rank, where, identity_.size)};
  return {ECH_ERR_TIMEOUT,
          fmt::format("rank {} did not reach rank 0 at {} in {}: {}{}", identity_.rank, where,
                      seconds_since(start_), last_.why, before)};
}

}  // namespace

Channels reach_root(const Identity& identity, const JoinOptions& options) {
  Channels channels;
  channels.push_back(Member(identity, options).run());
  return channels;
}

}  // namespace echelon
