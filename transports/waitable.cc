// SPDX-License-Identifier: Apache-2.0
#include "transports/waitable.h"

#include <poll.h>

namespace echelon {

void sleep_on(int fd, std::chrono::nanoseconds limit) {
  pollfd watched{fd, POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit);
  poll(&watched, 1, static_cast<int>(ms.count()));
}

}  // namespace echelon
