// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/reach.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>

#include "lib/base/error.h"
#include "lib/bootstrap/address.h"

namespace echelon::doctor {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kAtOnce = 16;
constexpr std::string_view kNames[] = {"connected", "refused",    "filtered", "no route",
                                       "forbidden", "unresolved", "failed"};
constexpr auto kThreadIfPossible = std::launch::async | std::launch::deferred;

Outcome outcome_of(int error) {
  switch (error) {
    case 0:
      return Outcome::kConnected;
    case ECONNREFUSED:
    case ECONNRESET:
      return Outcome::kRefused;
    case ETIMEDOUT:
      return Outcome::kFiltered;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EINVAL:  // a blackhole route
      return Outcome::kNoRoute;
    case EACCES:
    case EPERM:
      return Outcome::kForbidden;
    default:
      return Outcome::kFailed;
  }
}

// errno of connecting; ETIMEDOUT when nothing came back in time. What has come while this thread
// had no core counts, so it looks once more when the time is over.
int connect_until(const Address& address, Clock::time_point deadline) {
  const Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), address.raw(), address.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  for (;;) {
    const bool last = Clock::now() >= deadline;
    const auto left = last ? 0 : (deadline - Clock::now()) / std::chrono::milliseconds(1) + 1;
    pollfd wait = {fd.get(), POLLOUT, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) return errno;
    if (last) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

// The addresses of a name one after the other, as a rank tries them.
Reached reach_one(const Target& target, double limit) {
  Reached reached;
  try {
    const auto span = std::chrono::milliseconds(static_cast<std::int64_t>(limit * 1e3));
    for (const Address& address : resolve(target.host, target.port)) {
      const int error = connect_until(address, Clock::now() + span);
      const bool better = reached.address.empty() || error == 0;
      if (better)
        reached = {outcome_of(error), address.text(), error == 0 ? "" : std::strerror(error)};
      if (error == 0) break;
    }
  } catch (const Error& e) {
    reached = {Outcome::kUnresolved, "", e.what()};
  }
  return reached;
}

}  // namespace

std::string_view name(Outcome outcome) { return kNames[static_cast<std::size_t>(outcome)]; }

std::optional<Outcome> parse_outcome(std::string_view text) {
  const auto at = std::ranges::find(kNames, text);
  if (at == std::end(kNames)) return std::nullopt;
  return static_cast<Outcome>(at - std::begin(kNames));
}

OpenPort open_port() {
  // IPv6 sockets take IPv4 as well; some kernels have none.
  for (const int family : {AF_INET6, AF_INET}) {
    OpenPort open{Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
    Address address = any_address(family);
    const int no = 0;
    if (open.fd && family == AF_INET6)
      setsockopt(open.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const bool listens = open.fd && bind(open.fd.get(), address.raw(), address.length) == 0 &&
                         listen(open.fd.get(), SOMAXCONN) == 0;
    auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
    if (!listens || getsockname(open.fd.get(), raw, &address.length) != 0) continue;
    open.port = address.port();
    return open;
  }
  throw system_error("cannot listen on a TCP port");
}

std::vector<Reached> reach(std::span<const Target> targets, double limit) {
  std::vector<Reached> all;
  for (std::size_t first = 0; first < targets.size(); first += kAtOnce) {
    std::vector<std::future<Reached>> some;
    for (const Target& target : targets.subspan(first, std::min(kAtOnce, targets.size() - first)))
      some.push_back(std::async(kThreadIfPossible, reach_one, target, limit));
    for (std::future<Reached>& one : some) all.push_back(one.get());
  }
  return all;
}

double longest_reach(std::size_t targets, double limit) {
  const std::size_t rounds = (targets + kAtOnce - 1) / kAtOnce;
  return static_cast<double>(rounds) * limit;
}

}  // namespace echelon::doctor
