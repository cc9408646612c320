// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/schedule.h"

#include <algorithm>
#include <numeric>

namespace echelon {

Group Group::range(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return Group(std::move(ranks));
}

int Group::index_of(int rank) const {
  const auto it = std::ranges::find(ranks_, rank);
  return it == ranks_.end() ? -1 : static_cast<int>(it - ranks_.begin());
}

void Schedule::copy(int step, int from, int to, const std::vector<Slice>& slices) {
  if (!sees(from, to)) return;
  for (const Slice s : slices) copy(step, from, to, s);
}

void Schedule::reduce(int step, int from, int to, const std::vector<Slice>& slices) {
  if (!sees(from, to)) return;
  for (const Slice s : slices) reduce(step, from, to, s);
}

void Schedule::add(const Transfer& t) {
  if (t.slice.empty() || !sees(t.from, t.to)) return;
  steps_ = std::max(steps_, t.step + 1);
  transfers_.push_back(t);
}

void Schedule::add(GroupCall call) {
  if (call.parts.empty() || call.group.size() < 2) return;
  if (viewer_ != kEveryone && call.group.index_of(viewer_) < 0) return;
  steps_ = std::max(steps_, call.step + 1);
  calls_.push_back(std::move(call));
}

}  // namespace echelon
