// SPDX-License-Identifier: Apache-2.0
// How ranks that know the same meeting point and secret become connected to rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/bootstrap/channel.h"
#include "lib/bootstrap/control.h"
#include "lib/bootstrap/handshake.h"
#include "lib/bootstrap/unique_id.h"

namespace echelon {

// Who this rank is and where the ranks meet.
struct Identity {
  int rank = 0;
  int size = 1;
  std::string host;        // where rank 0 listens
  std::uint16_t port = 0;  // never 0
  Secret secret{};
  std::optional<UniqueId> id;  // set: rank 0 listens since the id was made; host and port are in it

  static Identity with(const UniqueId& id, int rank, int size);
};

struct JoinOptions {
  Deadline deadline;
  std::string interface;  // see interface_address
  Log log;
  Version version{};  // tests pretend to be another

  // Asked while it waits, if there is one: throws when there is no use in that any more.
  std::function<void()> check = nullptr;
};

inline constexpr std::chrono::milliseconds kCheckPeriod{20};

// Connects to all ranks of `identity`. Collective. Blocks until all have come or the deadline.
// Throws ECH_ERR_TIMEOUT naming the ranks that are missing, ECH_ERR_AUTH for a wrong secret,
// ECH_ERR_INVALID for a size, rank or version that does not fit, ECH_ERR_PEER for a rank that died.
std::unique_ptr<Control> join(const Identity& identity, const JoinOptions& options);

// The two sides of join(). Rank 0 gets the channels of ranks 1, 2, ...; the others that to rank 0.
using Channels = std::vector<std::unique_ptr<Channel>>;
Channels await_ranks(const Identity& identity, const JoinOptions& options);
Channels reach_root(const Identity& identity, const JoinOptions& options);

Peer self(const Identity& identity);

}  // namespace echelon
