// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include "lib/base/error.h"

namespace echelon {

Dialled dial(const Address& to, const std::string& interface) {
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw system_error("cannot create a socket");
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!interface.empty()) {
    const Address from = interface_address(interface, to.family());
    if (::bind(fd.get(), from.raw(), from.length) != 0)
      throw system_error("cannot bind to " + from.host());
  }
  const bool begun =
      ::connect(fd.get(), to.raw(), to.length) == 0 || errno == EINPROGRESS || errno == EINTR;
  const int error = begun ? 0 : errno;
  return {std::move(fd), error};
}

int dial_error(const Fd& fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace echelon
