// SPDX-License-Identifier: Apache-2.0
// Connecting to a rank that listens, without blocking.
#pragma once

#include <string>

#include "lib/base/fd.h"
#include "lib/bootstrap/address.h"

namespace echelon {

struct Dialled {
  Fd fd;          // non-blocking; writable when the attempt has ended: then see dial_error()
  int error = 0;  // the errno of an attempt that has failed at once
};

// Begins to connect to `to`, from the address of `interface` (see interface_address; empty: the
// kernel chooses). Throws ECH_ERR_SYSTEM or ECH_ERR_NO_MEMORY when this rank cannot have such a
// socket, ECH_ERR_INVALID when there is no such interface.
Dialled dial(const Address& to, const std::string& interface);

// 0 when it is connected, else the errno.
int dial_error(const Fd& fd);

}  // namespace echelon
