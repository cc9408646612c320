// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/listener.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "lib/base/descriptors.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

// A port may still be held by a listener that is just going away.
constexpr std::chrono::milliseconds kBusyPause{20};
constexpr int kBusyAttempts = 40;

Error busy(const Address& address) {
  if (address.port() == 0)
    return {ECH_ERR_SYSTEM,
            fmt::format("cannot listen on {}: no port is left ({})", address.host(), kPortRemedy)};
  return {ECH_ERR_SYSTEM,
          fmt::format("cannot listen on {}: another program uses the port; choose a free one "
                      "(ECHELON_ROOT or ECHELON_PORT)",
                      address.text())};
}

Listener listen_on(Address address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw system_error("cannot create a socket");
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  for (int attempt = 0;
       ::bind(fd.get(), address.raw(), address.length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0;
       ++attempt) {
    if (errno != EADDRINUSE) throw system_error("cannot listen on " + address.text());
    if (attempt == kBusyAttempts) throw busy(address);
    std::this_thread::sleep_for(kBusyPause);
  }
  address.length = sizeof address.storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    throw system_error("cannot read the address of a socket");
  return {std::move(fd), address};
}

Address address_for(const std::string& host, const std::string& interface) {
  if (!interface.empty()) return interface_address(interface);
  const Address first = resolve(host, 0).front();
  const bool alias = first.is_loopback() && !parse_address(host) && host != "localhost";
  if (alias || !is_local(first)) return any_address(first.family());
  return first;
}

}  // namespace

void Listener::stop() {
  if (fd) ::shutdown(fd.get(), SHUT_RDWR);
  fd = Fd();
}

Listener listen_on_interface(const std::string& interface) {
  return listen_on(interface_address(interface));
}

Listener listen_at(const std::string& host, std::uint16_t port, const std::string& interface) {
  Address address = address_for(host, interface);
  address.set_port(port);
  return listen_on(address);
}

}  // namespace echelon
