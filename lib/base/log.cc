// SPDX-License-Identifier: Apache-2.0
#include "lib/base/log.h"

#include <unistd.h>

namespace echelon {

void Log::operator()(ech_log_level l, const std::string& message) const {
  if (!wants(l)) return;
  if (function != nullptr) return function(l, message.c_str(), context);
  const std::string line = "echelon: " + message + "\n";  // one write: ranks share a terminal
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nobody to tell
}

}  // namespace echelon
