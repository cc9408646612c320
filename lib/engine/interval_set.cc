// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/interval_set.h"

#include <algorithm>

namespace echelon {

void IntervalSet::add(Slice s) {
  if (s.empty()) return;
  std::vector<Slice> merged;
  for (const Slice& old : slices_) {
    const bool apart = old.end < s.begin || s.end < old.begin;
    if (apart) {
      merged.push_back(old);
    } else {
      s = {std::min(s.begin, old.begin), std::max(s.end, old.end)};
    }
  }
  merged.push_back(s);
  std::ranges::sort(merged, {}, &Slice::begin);
  slices_ = std::move(merged);
}

bool IntervalSet::touches(Slice s) const {
  return std::ranges::any_of(slices_, [&](const Slice& old) { return old.overlaps(s); });
}

std::vector<Slice> IntervalSet::missing(Slice s) const {
  std::vector<Slice> gaps;
  for (const Slice& old : slices_) {
    if (!old.overlaps(s)) continue;
    if (s.begin < old.begin) gaps.push_back({s.begin, old.begin});
    s.begin = std::min(old.end, s.end);
  }
  if (!s.empty()) gaps.push_back(s);
  return gaps;
}

}  // namespace echelon
