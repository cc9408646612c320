// SPDX-License-Identifier: Apache-2.0
#include "algorithms/halving_doubling.h"

#include "algorithms/fold.h"

namespace echelon {
namespace {

// What the d core members from (i/d)*d on own together: at distance d, member i works on it and
// its partner i^d on the neighbouring one.
Slices block(const Shares& shares, int i, int d) {
  return united(shares, i / d * d, i / d * d + d);
}

int halve(Schedule& out, int step, const Group& core, const Shares& shares) {
  for (int d = core.size() / 2; d >= 1; d /= 2, ++step)
    for (int i = 0; i < core.size(); ++i)
      if (out.sees(core[i], core[i ^ d]))
        out.reduce(step, core[i], core[i ^ d], block(shares, i ^ d, d));
  return step;
}

int double_up(Schedule& out, int step, const Group& core, const Shares& shares) {
  for (int d = 1; d < core.size(); d *= 2, ++step)
    for (int i = 0; i < core.size(); ++i)
      if (out.sees(core[i], core[i ^ d])) out.copy(step, core[i], core[i ^ d], block(shares, i, d));
  return step;
}

}  // namespace

int halving_doubling_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Fold fold(g);
  const Slices all = united(shares);
  for (int k = 0; k < fold.pairs(); ++k) out.reduce(step, g[2 * k + 1], g[2 * k], all);
  if (fold.pairs() > 0) ++step;
  step = halve(out, step, fold.core(), fold.core_shares(shares));
  for (int k = 0; k < fold.pairs(); ++k) out.copy(step, g[2 * k], g[2 * k + 1], shares[2 * k + 1]);
  return fold.pairs() > 0 ? step + 1 : step;
}

int halving_doubling_allgather(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Fold fold(g);
  for (int k = 0; k < fold.pairs(); ++k) out.copy(step, g[2 * k + 1], g[2 * k], shares[2 * k + 1]);
  if (fold.pairs() > 0) ++step;
  step = double_up(out, step, fold.core(), fold.core_shares(shares));
  for (int k = 0; k < fold.pairs(); ++k) {
    out.copy(step, g[2 * k], g[2 * k + 1], united(shares, 0, 2 * k + 1));
    out.copy(step, g[2 * k], g[2 * k + 1], united(shares, 2 * k + 2, g.size()));
  }
  return fold.pairs() > 0 ? step + 1 : step;
}

// The resting members need nothing until the end, so the core divides the work evenly.
int halving_doubling_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  const Fold fold(g);
  const Slices all = united(shares);
  const Shares work = fold.pairs() > 0 ? divide(all, fold.core().size()) : shares;
  for (int k = 0; k < fold.pairs(); ++k) out.reduce(step, g[2 * k + 1], g[2 * k], all);
  if (fold.pairs() > 0) ++step;
  step = halve(out, step, fold.core(), work);
  step = double_up(out, step, fold.core(), work);
  for (int k = 0; k < fold.pairs(); ++k) out.copy(step, g[2 * k], g[2 * k + 1], all);
  return fold.pairs() > 0 ? step + 1 : step;
}

}  // namespace echelon
