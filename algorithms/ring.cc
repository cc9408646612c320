// SPDX-License-Identifier: Apache-2.0
#include "algorithms/ring.h"

namespace echelon {

// The share of member p starts at member p+1, is added to on its way around the ring, and is
// complete when it reaches member p.
int ring_reduce_scatter(Schedule& out, int step, const Group& g, const Shares& shares) {
  const int n = g.size();
  const std::vector<int> senders = seen_from(out, g, {0, 1});
  for (int s = 0; s < n - 1; ++s, ++step)
    for (const int i : senders) out.reduce(step, g[i], g[i + 1], shares[g.wrap(i - 1 - s)]);
  return step;
}

// The share of member p starts there and is copied once around the ring.
int ring_allgather(Schedule& out, int step, const Group& g, const Shares& shares) {
  const int n = g.size();
  const std::vector<int> senders = seen_from(out, g, {0, 1});
  for (int s = 0; s < n - 1; ++s, ++step)
    for (const int i : senders) out.copy(step, g[i], g[i + 1], shares[g.wrap(i - s)]);
  return step;
}

int ring_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  step = ring_reduce_scatter(out, step, g, shares);
  return ring_allgather(out, step, g, shares);
}

}  // namespace echelon
