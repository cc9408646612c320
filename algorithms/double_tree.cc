// SPDX-License-Identifier: Apache-2.0
#include "algorithms/double_tree.h"

#include <bit>

namespace echelon {
namespace {

// The tree on nodes 1..n whose in-order walk is 1, 2, ..., n: a node's height is its number of
// trailing zero bits, so that odd nodes are leaves. 0 above the root.
int parent(int node, int n) {
  const int low = node & -node;
  const int up = (node - low) | (low << 1);
  return up <= n ? up : node - low;  // beyond n: what is left of it hangs one higher
}

int depth(int node, int n) {
  int edges = -1;
  for (; node > 0; node = parent(node, n)) ++edges;
  return edges;
}

// Member at `node` of tree 0 or 1. Tree 1 is the mirror image (n even) or shifted by one (n odd),
// either of which turns odd nodes, the leaves, into even ones.
int member(int node, int tree, int n) {
  if (tree == 0) return node - 1;
  return n % 2 == 0 ? n - node : node % n;
}

}  // namespace

// Nodes of depth k send up in step L-k and receive from above in step L+k-1.
int double_tree_allreduce(Schedule& out, int step, const Group& g, const Shares& shares) {
  const int n = g.size();
  const int levels = std::bit_width(static_cast<unsigned>(n)) - 1;
  const Shares halves = divide(united(shares), 2);
  for (int tree = 0; tree < 2; ++tree)
    for (int node = 1; node <= n; ++node) {
      const int up = parent(node, n);
      if (up == 0) continue;
      const int k = depth(node, n);
      const int child = g[member(node, tree, n)];
      const int above = g[member(up, tree, n)];
      out.reduce(step + levels - k, child, above, halves[tree]);
      out.copy(step + levels + k - 1, above, child, halves[tree]);
    }
  return step + 2 * levels;
}

}  // namespace echelon
