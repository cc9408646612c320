// SPDX-License-Identifier: Apache-2.0
#include "algorithms/binomial.h"

#include <algorithm>
#include <bit>

namespace echelon {
namespace {

// Calls body(owner, v) for the edges of length d in the trees of all owners: between the members
// v and v-d places after the owner, where d is the lowest bit of v. Only what the viewer sees.
template <typename Body>
void for_each_edge(const Schedule& out, const Group& g, const Shares& shares, int d, Body body) {
  const int n = g.size();
  const int viewer = g.index_of(out.viewer());  // -1 for everyone
  for (int owner = 0; owner < n; ++owner) {
    if (shares[owner].empty()) continue;
    const int place = g.wrap(viewer - owner);
    const bool is_near = place % (2 * d) == 0;
    const int first = viewer < 0 ? d : is_near ? place + d : place;
    const int last = viewer < 0 ? n - 1 : std::min(first, n - 1);
    for (int v = first; v <= last; v += 2 * d)
      if (v % (2 * d) == d) body(owner, v);
  }
}

}  // namespace

// Distances 1, 2, 4, ...: the farther end of an edge hands what it has collected to the nearer.
// With every distance half of those that are left drop out.
int binomial_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares) {
  for (int d = 1; d < g.size(); d *= 2, ++step)
    for_each_edge(out, g, shares, d, [&](int owner, int v) {
      out.reduce(step, g[owner + v], g[owner + v - d], shares[owner]);
    });
  return step;
}

// The same trees downwards, the largest distance first.
int binomial_allgather(Schedule& out, int step, const Group& g, const Shares& shares) {
  const int farthest = static_cast<int>(std::bit_ceil(static_cast<unsigned>(g.size()))) / 2;
  for (int d = farthest; d >= 1; d /= 2, ++step)
    for_each_edge(out, g, shares, d, [&](int owner, int v) {
      out.copy(step, g[owner + v - d], g[owner + v], shares[owner]);
    });
  return step;
}

int binomial_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Shares first = all_to(0, united(shares), g.size());
  step = binomial_reduce_scatter(out, step, g, first);
  return binomial_allgather(out, step, g, first);
}

}  // namespace echelon
