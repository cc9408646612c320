// SPDX-License-Identifier: Apache-2.0
// Making a communicator: find the others, discover and exchange the fabric, lay out the ranks,
// connect the media, measure the links.
#pragma once

#include <memory>

#include "lib/base/log.h"
#include "lib/communicator.h"
#include "lib/options.h"

namespace echelon {

// Over a control connection that all ranks have. Collective, blocks until the deadline.
std::unique_ptr<Communicator> create_communicator(std::unique_ptr<Control> control,
                                                  const Options& options, const Log& log);

}  // namespace echelon
