// SPDX-License-Identifier: Apache-2.0
// Where messages for people go: the caller's callback, or standard error. Lower case, one line,
// "name value" without "=".
#pragma once

#include <string>

#include "echelon/echelon.h"

namespace echelon {

struct Log {
  ech_log_fn function = nullptr;
  void* context = nullptr;
  ech_log_level level = ECH_LOG_WARN;

  bool wants(ech_log_level l) const { return l <= level; }
  void operator()(ech_log_level l, const std::string& message) const;
};

}  // namespace echelon
