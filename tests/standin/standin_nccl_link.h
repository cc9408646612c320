// SPDX-License-Identifier: Apache-2.0
// Connections between the ranks of a communicator: the others with rank 0, by sockets that are
// files of $TMPDIR, or /tmp, so that ranks in other network namespaces find them, too. They are
// removed when all ranks have come.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/fd.h"

namespace echelon::standin {

std::string new_name();  // that no other communicator has

// The ranks of one communicator, connected. Throws Lost when the other end has gone, or close() was
// called.
class Links {
 public:
  struct Lost {};

  // Returns when all are there. Throws Lost when `aborted` is set, or after a minute.
  Links(const std::string& name, int rank, int size, const std::atomic<bool>& aborted);

  // Rank 0: with rank `peer`; the others: with rank 0.
  void send(int peer, const void* data, std::size_t bytes);
  void receive(int peer, void* data, std::size_t bytes);

  void shut_down();  // from any thread; nothing can be sent or received any more

 private:
  Fd& with(int peer) { return ends_[static_cast<std::size_t>(peer)]; }

  std::vector<Fd> ends_;  // by rank; others than rank 0 have the first only
};

}  // namespace echelon::standin
