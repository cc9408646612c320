// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <vector>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon {

void require_descriptors(int needed, std::string_view purpose) {
  std::vector<Fd> held;
  for (int have = 0; have < needed; ++have) {
    Fd one(eventfd(0, EFD_CLOEXEC));
    if (!one)
      throw system_error(
          fmt::format("{} needs {} file descriptors, {} are left", purpose, needed, have));
    held.push_back(std::move(one));
  }
}

}  // namespace echelon
