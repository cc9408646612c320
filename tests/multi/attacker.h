// SPDX-License-Identifier: Apache-2.0
// A stranger who can reach rank 0's port, or sits between it and a rank, and what it does there.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>

#include "lib/base/fd.h"

namespace echelon::test {

// A port of loopback that was free a moment ago, below those that outgoing connections get.
std::uint16_t free_port();

// Rank 0's port as a stranger sees it.
class Target {
 public:
  explicit Target(std::uint16_t port) : port_(port) {}

  // A non-blocking socket. Empty when nobody listens any more.
  Fd connect() const;
  // The same before it is connected, from an address of loopback.
  Fd start_connecting(const char* from = "127.0.0.1") const;
  void await_listener() const;

  std::deque<Fd> held;  // connections that the attack keeps open
  std::mt19937 random{1};

 private:
  std::uint16_t port_;
};

// Bytes that come within a second, at most `size`.
std::string read_some(const Fd& fd, std::size_t size);
void send_all(const Fd& fd, std::string_view bytes);

// Does its worst once, in a bounded time, and is called again and again.
using Attack = std::function<void(Target&)>;

void random_bytes(Target& target);
void truncated_hellos(Target& target);
void oversized_lengths(Target& target);
void wrong_secrets(Target& target);
void connect_and_reset(Target& target);
Attack slow_loris(std::size_t connections);  // a byte of a hello each, every 100 ms
Attack idle_connections(std::size_t number);
Attack flood(const char* from);  // opens connections as fast as they are taken, and holds them

// Stands between rank 0 and one other rank and passes on what they say.
class Proxy {
 public:
  explicit Proxy(std::uint16_t root_port);

  std::uint16_t port() const { return port_; }
  void step();  // passes on what is there
  // A forged part of the connection, to rank 0 as if from the rank.
  void inject(std::string_view bytes) const { send_all(to_root_, bytes); }
  void close();

  // What the rank has said so far.
  const std::string& recorded() const { return recorded_; }

 private:
  std::uint16_t root_port_;
  std::uint16_t port_;
  Fd listener_, to_rank_, to_root_;
  std::string recorded_;
};

// Replays the hello that `proxy` has recorded, and all that followed. The number of replays that
// rank 0 has refused is added to `refused`.
Attack replays(Proxy& proxy, int& refused);

}  // namespace echelon::test
