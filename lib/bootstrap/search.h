// SPDX-License-Identifier: Apache-2.0
// The search of a survivor for the others: the decisions of gathering.h over sockets. It calls
// other seats' standby listeners, takes in those that call at its own, and ends when it is decided
// who goes on, by this rank or by the one that it follows.
#pragma once

#include "lib/bootstrap/rendezvous.h"
#include "lib/bootstrap/reunion.h"

namespace echelon {

struct Found {
  bool leads = false;
  std::vector<int> members;   // the seats that go on, in order
  std::vector<int> left_out;  // by this leader: they may be alive
  Channels channels;          // to the other members in order, or to the leader
};

// Throws as reunite() does.
Found search(Standby& standby, const ReunionOptions& options);

// What a rank is told with which the others have done (standby.lost_to).
Error left_out(const Standby& standby, const ReunionOptions& options);

}  // namespace echelon
