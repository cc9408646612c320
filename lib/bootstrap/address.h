// SPDX-License-Identifier: Apache-2.0
// Socket addresses and network interfaces: parsing, look-up, text.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace echelon {

// An IPv4 or IPv6 address with a port.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_loopback() const;
  std::string host() const;  // "10.0.0.1", "fd00::1"
  std::string text() const;  // "10.0.0.1:4242", "[fd00::1]:4242"

  // What belongs to one party: an IPv4 address, or the /64 of an IPv6 address, as raw bytes.
  std::string network() const;
};

Address any_address(int family);

// "10.0.0.1" or "fd00::1"; nothing for anything else.
std::optional<Address> parse_address(const std::string& literal);

// Every address of a host, in the resolver's order. Throws ECH_ERR_INVALID naming the host.
std::vector<Address> resolve(const std::string& host, std::uint16_t port);

// The address to bind for `interface`: a name ("eth0") or an address of this machine; empty means
// the interface of the default route, else loopback. With a `family` only an address of that
// family. Port 0. Throws ECH_ERR_INVALID naming the interface and those that exist.
Address interface_address(const std::string& interface, int family = AF_UNSPEC);

// True when some interface of this machine has the address.
bool is_local(const Address& address);

// This end's of a connection; of no family when there is none.
Address own_address(int socket);

std::string host_name();

}  // namespace echelon
