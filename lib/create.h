// SPDX-License-Identifier: Apache-2.0
// Making a communicator: find the others, discover and exchange the fabric, lay out the ranks,
// connect the media, measure the links.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/log.h"
#include "lib/bootstrap/standby.h"
#include "lib/communicator.h"
#include "lib/options.h"

namespace echelon {

// The ranks of a communicator to be.
struct Membership {
  std::unique_ptr<Control> control;
  // Of survivors: what they found each other by, and their seats in it. Otherwise it is made.
  std::shared_ptr<Standby> standby{};
  std::vector<int> seats{};
};

// Collective, blocks until the deadline.
std::unique_ptr<Communicator> create_communicator(Membership ranks, const Options& options,
                                                  const Log& log, Deadline deadline);

}  // namespace echelon
