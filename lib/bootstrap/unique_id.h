// SPDX-License-Identifier: Apache-2.0
// The unique id: where rank 0 waits and the secret that proves membership, as 128 plain bytes;
// and the sockets that wait for a communicator to be made from an id.
#pragma once

#include <string>

#include "echelon/echelon.h"
#include "lib/bootstrap/address.h"
#include "lib/bootstrap/auth.h"
#include "lib/bootstrap/listener.h"

namespace echelon {

struct UniqueId {
  Address root;
  Secret secret{};
};

ech_unique_id encode(const UniqueId& id);

// Throws ECH_ERR_INVALID for bytes that encode() did not make, also when a single bit differs.
UniqueId decode(const ech_unique_id& bytes);

// Makes an id and starts to listen for it on `interface` (see interface_address). The socket is
// kept until this process takes it as rank 0. Thread-safe.
UniqueId listen_for_ranks(const std::string& interface);

// The socket of `id`. Throws ECH_ERR_INVALID when this process did not make the id or has used it
// already. Thread-safe.
Listener take_listener(const UniqueId& id);

}  // namespace echelon
