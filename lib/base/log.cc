// SPDX-License-Identifier: Apache-2.0
#include "lib/base/log.h"

namespace echelon {

void Log::operator()(ech_log_level l, const std::string& message) const {
  if (wants(l)) function(l, message.c_str(), context);
}

}  // namespace echelon
