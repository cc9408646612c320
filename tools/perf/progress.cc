// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace echelon::perf {

Progress::Progress(bool wanted) : on_(wanted && isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& text) {
  if (on_) fmt::print(stderr, "\r\033[K{}", text);
}

void Progress::clear() { show(""); }

}  // namespace echelon::perf
