// SPDX-License-Identifier: Apache-2.0
// How the survivors of a failure become connected to each other again. The decisions are those of
// gathering.h, over sockets:
//
//   survivor -> lower seat   Hello    as for rank 0 at the beginning (handshake.h)
//   leader   -> followers    Gather   empty, now and then: it is still there, and waits for others
//   leader   -> followers    Ready    the seats of all members: they will be the ranks, in order
//   follower -> leader       Ready    it has heard; their connection is the new control connection
//   leader   -> others       Notice   the members have gone on without this one (notice.h)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/bootstrap/control.h"
#include "lib/bootstrap/gathering.h"
#include "lib/bootstrap/standby.h"

namespace echelon {

struct ReunionOptions {
  WaitingTimes times;
  Deadline deadline;                              // of the whole
  std::function<std::string(int seat)> describe;  // "rank 3 on hostB (pid 12)"
};

struct Reunited {
  std::unique_ptr<Control> control;
  std::vector<int> seats;  // of its ranks
};

// Blocks until this rank is connected to all other survivors that came. Throws
//  ECH_ERR_PEER     one of them was lost on the way: all that are left may try again
//  ECH_ERR_TIMEOUT  it took too long: likewise
//  ECH_ERR_ABORTED  the others have gone on without this rank, for good
//  ECH_ERR_INVALID  the standby is in use by another thread
// and ECH_ERR_SYSTEM or ECH_ERR_NO_MEMORY when this rank cannot have the sockets it needs.
Reunited reunite(Standby& standby, const ReunionOptions& options);

// The payload of the leader's Ready. decode_members() throws ECH_ERR_INVALID unless it names at
// least two of the seats in [0, size), in order.
std::string encode_members(const std::vector<int>& seats);
std::vector<int> decode_members(std::string_view payload, int size);

}  // namespace echelon
