// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/bootstrap/solo_control.h"
#include "lib/bootstrap/tcp_control.h"

namespace echelon {

Identity Identity::with(const UniqueId& id, int rank, int size) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.host = id.root.host();
  identity.port = id.root.port();
  identity.secret = id.secret;
  identity.id = id;
  return identity;
}

Peer self(const Identity& identity) {
  return {identity.rank, host_name(), static_cast<std::uint32_t>(::getpid())};
}

std::unique_ptr<Control> join(const Identity& identity, const JoinOptions& options) {
  if (identity.size < 1) throw invalid(fmt::format("size is {}, not 1 or more", identity.size));
  if (identity.rank < 0 || identity.rank >= identity.size)
    throw invalid(fmt::format("rank {} is not one of the {} ranks 0-{}", identity.rank,
                              identity.size, identity.size - 1));
  if (identity.size == 1) {
    if (identity.id) take_listener(*identity.id);
    return std::make_unique<SoloControl>();
  }
  auto control =
      std::make_unique<TcpControl>(identity, identity.rank == 0 ? await_ranks(identity, options)
                                                                : reach_root(identity, options));
  control->start(options.deadline, options.check);
  return control;
}

}  // namespace echelon
