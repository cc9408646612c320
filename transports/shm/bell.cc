// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/bell.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "lib/base/error.h"

namespace echelon::shm {
namespace {

// More than the kernel queues at a time (net.unix.max_dgram_qlen, 10). The name is no secret on
// this machine: whoever sends without end may wake us in vain, but must not hold us.
constexpr int kMostRings = 64;

struct Name {
  sockaddr_un address{};
  socklen_t length = 0;

  // Abstract: the first byte of the path is 0, the length counts, nothing stays behind.
  explicit Name(std::uint64_t nonce) {
    address.sun_family = AF_UNIX;
    char* end = fmt::format_to_n(address.sun_path + 1, sizeof address.sun_path - 1,
                                 "echelon-shm-{:016x}", nonce)
                    .out;
    length = static_cast<socklen_t>(end - reinterpret_cast<char*>(&address));
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

long futex(std::atomic<std::uint32_t>& word, int op, std::uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), op, value, limit, nullptr, 0);
}

}  // namespace

Bell::Bell(BellLine& line, std::uint64_t nonce)
    : line_(&line),
      nonce_(nonce),
      socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (!socket_) throw system_error("create wake-up socket");
  const Name name(nonce);
  if (bind(socket_.get(), name.get(), name.length) != 0) throw system_error("bind wake-up socket");
}

void Bell::arm(bool for_ends) {
  heard_ = for_ends ? 0 : kDataOnly;
  line_->sleeping.store(kOnFd | heard_, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // invariant 1
}

void Bell::stay_awake() { line_->sleeping.store(kAwake, std::memory_order_relaxed); }

void Bell::disarm() {
  stay_awake();
  if (std::exchange(on_futex_, false)) return;  // no datagrams then
  char byte;                                    // invariant 4
  for (int i = 0; i < kMostRings && recv(socket_.get(), &byte, 1, MSG_DONTWAIT) >= 0; ++i) continue;
}

void Bell::sleep(std::chrono::nanoseconds limit) {
  std::uint32_t expected = kOnFd | heard_;
  const std::uint32_t asleep = kOnFutex | heard_;
  if (!line_->sleeping.compare_exchange_strong(expected, asleep)) return;  // invariant 3
  on_futex_ = true;
  const auto ns = std::max<std::int64_t>(limit.count(), 0);
  const timespec time{static_cast<time_t>(ns / 1'000'000'000),
                      static_cast<long>(ns % 1'000'000'000)};
  futex(line_->sleeping, FUTEX_WAIT, asleep, &time);
}

void Bell::ring(BellLine& line, std::uint64_t nonce) {
  const std::uint32_t mode = line.sleeping.exchange(kAwake) & ~kDataOnly;
  if (mode == kOnFutex) futex(line.sleeping, FUTEX_WAKE, 1, nullptr);
  if (mode != kOnFd) return;
  // A full queue wakes as well; a socket that is gone has nobody to wake.
  const Name name(nonce);
  sendto(socket_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, name.get(), name.length);
}

}  // namespace echelon::shm
