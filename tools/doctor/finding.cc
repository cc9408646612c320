// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/finding.h"

#include <fmt/format.h>

#include <utility>

namespace echelon::doctor {

std::string_view name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"ok", "costs", "broken"};
  return kNames[static_cast<int>(verdict)];
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Finding ok(std::string found) { return {Verdict::kOk, std::move(found), {}, {}, {}, {}}; }

Finding costs(std::string found, std::string why, std::string remedy) {
  return {Verdict::kCosts, std::move(found), std::move(why), std::move(remedy), {}, {}};
}

Finding broken(std::string found, std::string why, std::string remedy) {
  return {Verdict::kBroken, std::move(found), std::move(why), std::move(remedy), {}, {}};
}

}  // namespace echelon::doctor
