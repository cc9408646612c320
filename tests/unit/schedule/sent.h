// SPDX-License-Identifier: Apache-2.0
// What a schedule sends, whichever slices of a size.
#pragma once

#include <array>
#include <map>

#include "lib/schedule/schedule.h"

namespace echelon {

// By step, sender, receiver and action: the part of the buffer.
using Sent = std::map<std::array<int, 4>, double>;

inline Sent sent(const Schedule& schedule) {
  Sent all;
  for (const Transfer& t : schedule.transfers())
    all[{t.step, t.from, t.to, static_cast<int>(t.action)}] += static_cast<double>(t.slice.size());
  for (auto& [what, units] : all) units /= static_cast<double>(schedule.units());
  return all;
}

}  // namespace echelon
