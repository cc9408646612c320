// SPDX-License-Identifier: Apache-2.0
#include "algorithms/recursive_doubling.h"

#include "algorithms/fold.h"

namespace echelon {

int recursive_doubling_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Slices all = united(shares);
  const Fold fold(g);
  const Group& core = fold.core();
  for (int k = 0; k < fold.pairs(); ++k) out.reduce(step, g[2 * k + 1], g[2 * k], all);
  if (fold.pairs() > 0) ++step;
  for (int d = 1; d < core.size(); d *= 2, ++step)
    for (int i = 0; i < core.size(); ++i) out.reduce(step, core[i], core[i ^ d], all);
  for (int k = 0; k < fold.pairs(); ++k) out.copy(step, g[2 * k], g[2 * k + 1], all);
  if (fold.pairs() > 0) ++step;
  return step;
}

}  // namespace echelon
