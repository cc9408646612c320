// SPDX-License-Identifier: Apache-2.0
// Messages between threads of one process: the reference implementation, and the one to test
// engines with. A send is done once its message was received, so whoever changes the data too
// early gets wrong results here.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace echelon {

// Addresses are valid within this process, as long as their medium or transport exists.
std::unique_ptr<Medium> open_loopback();

}  // namespace echelon
