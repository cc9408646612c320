// SPDX-License-Identifier: Apache-2.0
#include "algorithms/binomial.h"

#include <bit>

namespace echelon {

// Distances 1, 2, 4, ...: the member v places after the owner, where d is the lowest bit of v,
// hands what it has collected to the one d places nearer. In step d half of those left drop out.
int binomial_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares) {
  const int n = g.size();
  for (int d = 1; d < n; d *= 2, ++step)
    for (int owner = 0; owner < n; ++owner)
      for (int v = d; v < n && !shares[owner].empty(); v += 2 * d)
        out.reduce(step, g[owner + v], g[owner + v - d], shares[owner]);
  return step;
}

// The same trees downwards, the largest distance first.
int binomial_allgather(Schedule& out, int step, const Group& g, const Shares& shares) {
  const int n = g.size();
  for (int d = static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) / 2; d >= 1;
       d /= 2, ++step)
    for (int owner = 0; owner < n; ++owner)
      for (int v = d; v < n && !shares[owner].empty(); v += 2 * d)
        out.copy(step, g[owner + v - d], g[owner + v], shares[owner]);
  return step;
}

int binomial_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Shares first = all_to(0, united(shares), g.size());
  step = binomial_reduce_scatter(out, step, g, first);
  return binomial_allgather(out, step, g, first);
}

}  // namespace echelon
