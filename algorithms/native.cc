// SPDX-License-Identifier: Apache-2.0
#include "algorithms/native.h"

#include <algorithm>

namespace echelon {
namespace {

int call(Schedule& out, int step, GroupCall call) {
  if (call.group.size() < 2) return step;
  call.step = step;
  std::ranges::sort(call.parts, {}, [](const Part& p) { return p.slice.begin; });
  out.add(std::move(call));
  return step + 1;
}

std::vector<Part> parts(const Group& g, const Shares& shares) {
  std::vector<Part> all;
  for (int i = 0; i < g.size(); ++i)
    for (const Slice s : shares[i]) all.push_back({s, g[i]});
  return all;
}

}  // namespace

int native_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares) {
  return call(out, step, {step, GroupAction::kReduceScatter, g, parts(g, shares)});
}

int native_allgather(Schedule& out, int step, const Group& g, const Shares& shares) {
  return call(out, step, {step, GroupAction::kAllgather, g, parts(g, shares)});
}

// The engine divides the work as it likes: as few parts as possible.
int native_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Shares one = all_to(0, united(shares), g.size());
  return call(out, step, {step, GroupAction::kAllreduce, g, parts(g, one)});
}

}  // namespace echelon
