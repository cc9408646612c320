// SPDX-License-Identifier: Apache-2.0
#include "algorithms/direct.h"

namespace echelon {
namespace {

// Calls body(i, j) for every ordered pair of different members that the viewer sees.
template <typename Body>
void for_each_pair(const Schedule& out, const Group& g, Body body) {
  const std::vector<int> everybody = Group::range(g.size()).ranks();
  const std::vector<int> viewer = seen_from(out, g, {0});
  for (const int i : everybody)
    for (const int j : out.sees(g[i], g[i]) ? everybody : viewer)
      if (i != j) body(i, j);
}

}  // namespace

int direct_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares) {
  if (g.size() < 2) return step;
  for_each_pair(out, g, [&](int i, int j) { out.reduce(step, g[i], g[j], shares[j]); });
  return step + 1;
}

int direct_allgather(Schedule& out, int step, const Group& g, const Shares& shares) {
  if (g.size() < 2) return step;
  for_each_pair(out, g, [&](int i, int j) { out.copy(step, g[i], g[j], shares[i]); });
  return step + 1;
}

int direct_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  step = direct_reduce_scatter(out, step, g, shares);
  return direct_allgather(out, step, g, shares);
}

int one_shot_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  if (g.size() < 2) return step;
  const Slices all = united(shares);
  for_each_pair(out, g, [&](int i, int j) { out.reduce(step, g[i], g[j], all); });
  return step + 1;
}

}  // namespace echelon
