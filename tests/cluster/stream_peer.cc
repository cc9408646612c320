// SPDX-License-Identifier: Apache-2.0
// A program for virtual clusters: the last rank sends BYTES to rank 0, which says how many came
// and at what speed. It knows nothing but the variables of `echelon run`.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace {

using echelon::Fd;
using echelon::system_error;
using Clock = std::chrono::steady_clock;

Fd new_socket() {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw system_error("socket");
  return fd;
}

void receive(sockaddr_in address, std::size_t expected) {
  const Fd listener = new_socket();
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    throw system_error("listen");
  }
  const Fd peer(accept(listener.get(), nullptr, nullptr));
  std::vector<char> buffer(1 << 20);
  std::size_t got = 0;
  ssize_t n = read(peer.get(), buffer.data(), buffer.size());
  const auto start = Clock::now();
  for (; n > 0; n = read(peer.get(), buffer.data(), buffer.size())) {
    got += static_cast<std::size_t>(n);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (got != expected) throw echelon::invalid(fmt::format("{} of {} bytes came", got, expected));
  fmt::print("{:.1f} mbit/s\n", static_cast<double>(got) * 8e-6 / seconds);
}

void send(sockaddr_in address, std::size_t bytes) {
  Fd peer = new_socket();
  while (connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    usleep(2000);  // rank 0 does not listen yet
    peer = new_socket();
  }
  const std::vector<char> buffer(1 << 20, 'x');
  while (bytes > 0) {
    const ssize_t n = write(peer.get(), buffer.data(), std::min(bytes, buffer.size()));
    if (n < 0) throw system_error("write");
    bytes -= static_cast<std::size_t>(n);
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string root = std::getenv("ECHELON_ROOT");
  const int rank = std::atoi(std::getenv("ECHELON_RANK"));
  const int size = std::atoi(std::getenv("ECHELON_SIZE"));
  const std::size_t bytes = std::strtoull(argv[1], nullptr, 10);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  const std::size_t colon = root.find(':');
  inet_pton(AF_INET, root.substr(0, colon).c_str(), &address.sin_addr);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(root.c_str() + colon + 1)));
  try {
    if (rank == 0) receive(address, bytes);
    if (rank == size - 1) send(address, bytes);
  } catch (const echelon::Error& e) {
    fmt::print(stderr, "rank {}: {}\n", rank, e.what());
    return 1;
  }
}
