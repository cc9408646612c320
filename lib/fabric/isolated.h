// SPDX-License-Identifier: Apache-2.0
// Runs a parser that may crash on bad input in a process of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/fabric/fabric.h"

namespace echelon {

// The host that `make` returns. An Error of it arrives as such; a crash, or more than 20 s, is
// ECH_ERR_INVALID naming `what`. Forks: not for processes that use RDMA already.
Host make_isolated(std::string_view what, const std::function<Host()>& make);

}  // namespace echelon
