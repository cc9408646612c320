// SPDX-License-Identifier: Apache-2.0
// The socket on which rank 0 waits for the others.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/fd.h"
#include "lib/bootstrap/address.h"

namespace echelon {

struct Listener {
  Fd fd;
  Address address;  // as bound

  // Refuses every further connection, also in processes that inherited the socket by fork.
  void stop();
};

// On a free port of the interface's address (see interface_address).
Listener listen_on_interface(const std::string& interface);

// On `port`, for ranks that will connect to host:port. Binds the interface's address when one is
// named; else the address that `host` has, when it is one of this machine; else all addresses
// (behind address translation, and where a host's name means 127.0.1.1 to itself).
Listener listen_at(const std::string& host, std::uint16_t port, const std::string& interface);

}  // namespace echelon
