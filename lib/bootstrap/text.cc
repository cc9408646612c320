// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/join.h"
#include "lib/base/time.h"

namespace echelon {
namespace {

constexpr std::size_t kMostPieces = 10;

std::vector<std::string> pieces(const std::vector<int>& ranks) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2) {
      result.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    } else {
      for (std::size_t k = i; k < end; ++k) result.push_back(std::to_string(ranks[k]));
    }
    i = end;
  }
  return result;
}

}  // namespace

std::string rank_list(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::vector<std::string> all = pieces(ranks);
  if (all.size() == 1) return "ranks " + all[0];
  if (all.size() > kMostPieces) {
    all.resize(kMostPieces);
    return fmt::format("ranks {} and others ({} in all)", joined(all, ", "), ranks.size());
  }
  const std::string last = all.back();
  all.pop_back();
  return fmt::format("ranks {} and {}", joined(all, ", "), last);
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return line;
}

std::string seconds_since(Deadline start) {
  return fmt::format("{:.1f} s", to_seconds(std::chrono::steady_clock::now() - start));
}

int milliseconds_until(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, 60'000));
}

}  // namespace echelon
