// SPDX-License-Identifier: Apache-2.0
// One wait for everything that can bring news: shared memory, network, control connection.
#pragma once

#include <chrono>
#include <initializer_list>

#include "transports/waitable.h"

namespace echelon {

// Sleeps until one of `sources` (at most four; null ones are skipped) has news, `fd` (-1: none) is
// readable, or `limit` has passed. A single source sleeps in its own way, which is the quickest,
// and then `fd` is not looked at. False when it could not sleep: there was news before,
// or a source would not wake.
bool sleep_until_news(std::initializer_list<Waitable*> sources, int fd,
                      std::chrono::nanoseconds limit);

}  // namespace echelon
