// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_nccl_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/standin/standin_faults.h"

namespace echelon::standin {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{5};
constexpr std::chrono::seconds kPatience{60};

struct Address {
  sockaddr_un where{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&where); }
};

Fd new_socket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Emulated hosts have networks of their own, but the same files.
std::string path_of(const std::string& name) {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/" + name;
}

Address address_of(const std::string& name) {
  Address address;
  address.where.sun_family = AF_UNIX;
  const std::string path = path_of(name);
  if (path.size() >= sizeof address.where.sun_path) give_up("too long a name: " + path);
  std::memcpy(address.where.sun_path, path.c_str(), path.size() + 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

// A socket that the other ranks find, until all have come or none may come any more.
class Door {
 public:
  Door(const std::string& name, int size) : path_(path_of(name)), socket_(new_socket()) {
    const Address address = address_of(name);
    if (bind(socket_.get(), address.get(), address.length) != 0) give_up("two ranks 0 of " + name);
    if (listen(socket_.get(), size) != 0) give_up("nobody can come to " + name);
  }
  ~Door() { unlink(path_.c_str()); }
  Door(const Door&) = delete;
  int get() const { return socket_.get(); }

 private:
  const std::string path_;
  const Fd socket_;
};

struct Introduction {
  int rank, size;
};

void send_all(int fd, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(fd, from, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Links::Lost();
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void receive_all(int fd, void* data, std::size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(fd, to, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Links::Lost();
    to += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

// Whether to go on trying to find the other ranks.
void pause(Clock::time_point deadline, const std::atomic<bool>& aborted) {
  if (aborted || Clock::now() > deadline) throw Links::Lost();
  std::this_thread::sleep_for(kPoll);
}

std::vector<Fd> accept_all(const std::string& name, int size, const std::atomic<bool>& aborted) {
  std::vector<Fd> ends(static_cast<std::size_t>(size));
  const auto deadline = Clock::now() + kPatience;
  const Door door(name, size);
  for (int missing = size - 1; missing > 0;) {
    pollfd ready{door.get(), POLLIN, 0};
    if (poll(&ready, 1, 0) <= 0) {
      pause(deadline, aborted);
      continue;
    }
    Fd end(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Introduction said{};
    receive_all(end.get(), &said, sizeof said);
    if (said.size != size || said.rank <= 0 || said.rank >= size ||
        ends[static_cast<std::size_t>(said.rank)])
      give_up("rank " + std::to_string(said.rank) + " of " + std::to_string(said.size) +
              " came to a communicator of " + std::to_string(size));
    ends[static_cast<std::size_t>(said.rank)] = std::move(end);
    --missing;
  }
  return ends;
}

Fd connect_to(const std::string& name, Introduction me, const std::atomic<bool>& aborted) {
  const auto deadline = Clock::now() + kPatience;
  const Address address = address_of(name);
  try {
    while (true) {
      Fd end = new_socket();
      if (connect(end.get(), address.get(), address.length) == 0) {
        send_all(end.get(), &me, sizeof me);
        return end;
      }
      pause(deadline, aborted);
    }
  } catch (const Links::Lost&) {
    unlink(path_of(name).c_str());  // rank 0, which removes it, may have died
    throw;
  }
}

}  // namespace

std::string new_name() {
  std::random_device random;
  return "standin-nccl-" + std::to_string(random()) + "-" + std::to_string(random());
}

Links::Links(const std::string& name, int rank, int size, const std::atomic<bool>& aborted) {
  if (rank == 0) {
    ends_ = accept_all(name, size, aborted);
  } else {
    ends_.push_back(connect_to(name, {rank, size}, aborted));
  }
}

void Links::send(int peer, const void* data, std::size_t bytes) {
  send_all(with(peer).get(), data, bytes);
}

void Links::receive(int peer, void* data, std::size_t bytes) {
  receive_all(with(peer).get(), data, bytes);
}

void Links::shut_down() {
  for (const Fd& end : ends_)
    if (end) shutdown(end.get(), SHUT_RDWR);
}

}  // namespace echelon::standin
