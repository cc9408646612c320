// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "lib/base/error.h"
#include "lib/base/fd.h"
#include "lib/base/join.h"

namespace echelon {
namespace {

const sockaddr_in& v4(const Address& a) { return reinterpret_cast<const sockaddr_in&>(a.storage); }
const sockaddr_in6& v6(const Address& a) {
  return reinterpret_cast<const sockaddr_in6&>(a.storage);
}

Address from_raw(const sockaddr* raw) {
  Address address;
  address.length = raw->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&address.storage, raw, address.length);
  return address;
}

bool same_host(const Address& a, const Address& b) {
  if (a.family() != b.family()) return false;
  if (a.family() == AF_INET) return v4(a).sin_addr.s_addr == v4(b).sin_addr.s_addr;
  return IN6_ARE_ADDR_EQUAL(&v6(a).sin6_addr, &v6(b).sin6_addr);
}

struct NamedAddress {
  std::string interface;
  Address address;
};

// IPv4 first. Link-local IPv6 addresses are left out: they mean nothing on another machine.
std::vector<NamedAddress> local_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw system_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<NamedAddress> found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const Address address = from_raw(i->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(address).sin6_addr)) continue;
    found.push_back({i->ifa_name, address});
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const NamedAddress& n) { return n.address.family() == AF_INET; });
  return found;
}

// The source address the kernel would use towards `target`. Connecting a datagram socket only
// looks up the route; nothing is sent.
std::optional<Address> source_towards(const char* target) {
  Address to = *parse_address(target);
  to.set_port(9);
  const Fd fd(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), to.raw(), to.length) != 0) return std::nullopt;
  Address source;
  source.length = sizeof source.storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&source.storage), &source.length) != 0)
    return std::nullopt;
  source.set_port(0);
  return source;
}

Address default_address(int family) {
  // Addresses reserved for documentation: certain to follow the default route.
  if (family != AF_INET6)
    if (const auto source = source_towards("192.0.2.1")) return *source;
  if (family != AF_INET)
    if (const auto source = source_towards("2001:db8::1")) return *source;
  for (const NamedAddress& n : local_addresses())
    if (!n.address.is_loopback() && (family == AF_UNSPEC || n.address.family() == family))
      return n.address;
  return *parse_address(family == AF_INET6 ? "::1" : "127.0.0.1");
}

}  // namespace

std::uint16_t Address::port() const {
  return ntohs(family() == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port);
}

void Address::set_port(std::uint16_t port) {
  if (family() == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
}

bool Address::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr);
  return ntohl(v4(*this).sin_addr.s_addr) >> 24 == 127;
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  const void* bytes = family() == AF_INET6 ? static_cast<const void*>(&v6(*this).sin6_addr)
                                           : static_cast<const void*>(&v4(*this).sin_addr);
  if (length == 0 || inet_ntop(family(), bytes, text, sizeof text) == nullptr) return "unknown";
  return text;
}

std::string Address::text() const {
  if (family() == AF_INET6) return fmt::format("[{}]:{}", host(), port());
  return fmt::format("{}:{}", host(), port());
}

std::string Address::network() const {
  if (family() == AF_INET) return {reinterpret_cast<const char*>(&v4(*this).sin_addr), 4};
  if (family() != AF_INET6) return {};
  const char* const bytes = reinterpret_cast<const char*>(&v6(*this).sin6_addr);
  // What a socket for both versions says of an IPv4 address.
  return IN6_IS_ADDR_V4MAPPED(&v6(*this).sin6_addr) ? std::string(bytes + 12, 4)
                                                    : std::string(bytes, 8);
}

Address any_address(int family) { return *parse_address(family == AF_INET6 ? "::" : "0.0.0.0"); }

std::optional<Address> parse_address(const std::string& literal) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (inet_pton(AF_INET, literal.c_str(), &four.sin_addr) == 1)
    return from_raw(reinterpret_cast<const sockaddr*>(&four));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, literal.c_str(), &six.sin6_addr) == 1)
    return from_raw(reinterpret_cast<const sockaddr*>(&six));
  return std::nullopt;
}

std::vector<Address> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (failed != 0)
    throw invalid(fmt::format("cannot resolve host \"{}\": {}", host, gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Address> found;
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    if (i->ai_family != AF_INET && i->ai_family != AF_INET6) continue;
    found.push_back(from_raw(i->ai_addr));
    found.back().set_port(port);
  }
  if (found.empty()) throw invalid(fmt::format("host \"{}\" has no IP address", host));
  return found;
}

Address interface_address(const std::string& interface, int family) {
  const auto fits = [family](const Address& a) {
    return family == AF_UNSPEC || a.family() == family;
  };
  if (interface.empty()) return default_address(family);
  const auto literal = parse_address(interface);
  const auto locals = local_addresses();
  std::vector<std::string> names;
  for (const NamedAddress& local : locals) {
    const bool meant = literal ? same_host(*literal, local.address) : interface == local.interface;
    if (meant && fits(local.address)) return local.address;
    if (std::find(names.begin(), names.end(), local.interface) == names.end())
      names.push_back(local.interface);
  }
  const char* wanted = family == AF_INET ? "IPv4 " : family == AF_INET6 ? "IPv6 " : "";
  throw invalid(
      fmt::format("interface \"{}\": not an interface of {} that is up and has an {}address; there "
                  "are {}",
                  interface, host_name(), wanted, joined(names, ", ")));
}

bool is_local(const Address& address) {
  if (address.is_loopback()) return true;
  const auto locals = local_addresses();
  return std::any_of(locals.begin(), locals.end(),
                     [&](const NamedAddress& local) { return same_host(address, local.address); });
}

Address own_address(int socket) {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return {};
  return address;
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace echelon
