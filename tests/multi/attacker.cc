// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/attacker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/bootstrap/handshake.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kHeldByMost = 50;
constexpr std::size_t kFlood = 7000;  // more than rank 0's places and the kernel's queue
constexpr milliseconds kPace{100};

sockaddr_in loopback(const char* host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

const sockaddr* raw(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Keeps a connection open for a while, and closes the oldest for it.
void hold(Target& target, Fd fd, std::size_t most) {
  if (fd) target.held.push_back(std::move(fd));
  if (target.held.size() > most) target.held.pop_front();
}

bool is_closed(const Fd& fd) {
  pollfd entry{fd.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// How many were closed and are open again.
std::size_t open_more(Target& target, std::size_t most, const char* from = "127.0.0.1") {
  std::erase_if(target.held, is_closed);
  std::size_t opened = 0;
  for (; target.held.size() < most; ++opened) {
    Fd fd = target.start_connecting(from);
    if (!fd) break;
    target.held.push_back(std::move(fd));
  }
  return opened;
}

// Passes on what has come at one end. False when that end was closed.
bool pass(const Fd& from, const Fd& to, std::string* copy) {
  std::array<char, 65536> bytes;
  for (;;) {
    const ssize_t n = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    send_all(to, {bytes.data(), static_cast<std::size_t>(n)});
    if (copy != nullptr) copy->append(bytes.data(), static_cast<std::size_t>(n));
  }
}

bool is_refusal(std::string_view verdict) {
  if (verdict.size() != kVerdictBytes) return false;
  ByteReader reader(verdict.substr(kMagicBytes), "verdict");
  const bool no_proof =
      verdict.substr(kVerdictBytes - kProofBytes) == std::string(kProofBytes, '\0');
  return no_proof && static_cast<std::int32_t>(reader.u32()) == ECH_ERR_AUTH;
}

}  // namespace

std::uint16_t free_port() {
  std::random_device random;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<std::uint16_t>(10240 + random() % (32768 - 10240));
    const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback("127.0.0.1", port);
    if (fd && ::bind(fd.get(), raw(address), sizeof address) == 0) return port;
  }
  throw std::runtime_error("no free port");
}

Fd Target::start_connecting(const char* from) const {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  // Ports that are used up would be our problem and not rank 0's.
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  const sockaddr_in source = loopback(from, 0), root = loopback("127.0.0.1", port_);
  if (::bind(fd.get(), raw(source), sizeof source) != 0) return {};
  if (::connect(fd.get(), raw(root), sizeof root) != 0 && errno != EINPROGRESS) return {};
  return fd;
}

Fd Target::connect() const {
  Fd fd = start_connecting();
  pollfd entry{fd.get(), POLLOUT, 0};
  const bool connected = fd && ::poll(&entry, 1, 100) == 1 && (entry.revents & POLLERR) == 0;
  return connected ? std::move(fd) : Fd();
}

void Target::await_listener() const {
  while (!connect()) ::poll(nullptr, 0, 1);
}

std::string read_some(const Fd& fd, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  const auto end = Clock::now() + milliseconds(1000);
  while (have < size && Clock::now() < end) {
    pollfd entry{fd.get(), POLLIN, 0};
    if (::poll(&entry, 1, 10) <= 0) continue;
    const ssize_t n = ::recv(fd.get(), bytes.data() + have, size - have, MSG_DONTWAIT);
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

void send_all(const Fd& fd, std::string_view bytes) {
  const auto end = Clock::now() + milliseconds(5000);
  while (!bytes.empty() && Clock::now() < end) {
    const ssize_t n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0) ::poll(nullptr, 0, 1);
  }
}

void random_bytes(Target& target) {
  std::string bytes(target.random() % 5000, '\0');
  for (char& c : bytes) c = static_cast<char>(target.random());
  const std::string magic = encode_challenge().substr(0, kMagicBytes);
  if (target.random() % 2 == 0) bytes.replace(0, std::min(bytes.size(), magic.size()), magic);
  Fd fd = target.connect();
  send_all(fd, bytes);
  hold(target, std::move(fd), kHeldByMost);
}

void truncated_hellos(Target& target) {
  const Fd fd = target.connect();
  if (!fd) return;
  const std::string challenge = read_some(fd, kChallengeBytes);
  if (challenge.size() != kChallengeBytes) return;
  const std::string hello = encode_hello(random_secret(), challenge, {{}, 4, 2, 1, "evil"});
  send_all(fd, std::string_view(hello).substr(0, target.random() % hello.size()));
  if (target.random() % 2 == 0) ::shutdown(fd.get(), SHUT_WR);
}

void oversized_lengths(Target& target) {
  const std::string magic = encode_challenge().substr(0, kMagicBytes);
  for (const std::uint32_t length : {0xffffffffu, 0x7fffffffu, 0x40000001u, 65537u}) {
    const std::string frame = ByteWriter().u32(length).u8(2).u8(1).take();
    Fd fd = target.connect();
    send_all(fd, (target.random() % 2 == 0 ? magic : "") + frame + std::string(100'000, 'x'));
    hold(target, std::move(fd), kHeldByMost);
  }
}

void wrong_secrets(Target& target) {
  const Fd fd = target.connect();
  if (!fd) return;
  const std::string challenge = read_some(fd, kChallengeBytes);
  if (challenge.size() != kChallengeBytes) return;
  send_all(fd, encode_hello(random_secret(), challenge, {{}, 4, 2, 1, "evil"}));
  const std::string answer = read_some(fd, kVerdictBytes);
  if (!answer.empty() && !is_refusal(answer)) throw std::runtime_error("rank 0 did not refuse");
}

void connect_and_reset(Target& target) {
  for (int i = 0; i < 20; ++i) target.connect();
}

Attack slow_loris(std::size_t connections) {
  return [=, next = Clock::time_point(), sent = std::size_t{0}](Target& target) mutable {
    if (Clock::now() < next) return;
    next = Clock::now() + kPace;
    if (open_more(target, connections) > 0) sent = 0;
    const std::string bytes = encode_challenge() + std::string(200, 'x');
    for (const Fd& fd : target.held) send_all(fd, bytes.substr(sent % bytes.size(), 1));
    ++sent;
  };
}

Attack idle_connections(std::size_t number) {
  return [=, next = Clock::time_point()](Target& target) mutable {
    if (Clock::now() < next) return;
    open_more(target, number);
    next = Clock::now() + kPace;
  };
}

Attack flood(const char* from) {
  return [=](Target& target) { open_more(target, kFlood, from); };
}

Proxy::Proxy(std::uint16_t root_port) : root_port_(root_port), port_(free_port()) {
  listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in address = loopback("127.0.0.1", port_);
  if (::bind(listener_.get(), raw(address), sizeof address) != 0 ||
      ::listen(listener_.get(), 1) != 0)
    throw std::runtime_error("the proxy cannot listen");
}

void Proxy::step() {
  if (!to_rank_) {
    to_rank_ = Fd(::accept(listener_.get(), nullptr, nullptr));
    if (!to_rank_) return;
    while (!(to_root_ = Target(root_port_).connect())) ::poll(nullptr, 0, 1);
  }
  const bool rank_is_there = pass(to_rank_, to_root_, &recorded_);
  if (!pass(to_root_, to_rank_, nullptr) || !rank_is_there) close();
}

void Proxy::close() {
  // Both ends are shut down but kept: there is one connection in a test.
  for (const Fd* fd : {&to_rank_, &to_root_}) ::shutdown(fd->get(), SHUT_RDWR);
}

Attack replays(Proxy& proxy, int& refused) {
  return [&](Target& target) {
    proxy.step();
    if (proxy.recorded().size() < kHelloBytes) return;
    const bool all = target.random() % 2 == 0;
    const Fd fd = target.connect();
    if (!fd) return;
    read_some(fd, kChallengeBytes);
    send_all(fd, all ? proxy.recorded() : proxy.recorded().substr(0, kHelloBytes));
    for (int i = 0; i < 100; ++i) {  // the rank must not have to wait for us
      proxy.step();
      pollfd entry{fd.get(), POLLIN, 0};
      if (::poll(&entry, 1, 1) > 0) break;
    }
    refused += is_refusal(read_some(fd, kVerdictBytes));
  };
}

}  // namespace echelon::test
