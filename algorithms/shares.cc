// SPDX-License-Identifier: Apache-2.0
#include "algorithms/shares.h"

#include <algorithm>
#include <cstddef>

namespace echelon {

Shares divide(const Slices& slices, int n) {
  Unit total = 0;
  for (const Slice s : slices) total += s.size();
  const Slice line = {0, total};
  Shares shares(n);
  int owner = 0;
  Unit at = 0;  // position of the rest of the slice on the line
  for (Slice rest : slices) {
    while (!rest.empty()) {
      const Unit part_end = line.part(owner, n).end;
      const Unit length = std::min(rest.size(), part_end - at);
      if (length > 0) shares[owner].push_back({rest.begin, rest.begin + length});
      rest.begin += length;
      at += length;
      if (at == part_end) ++owner;
    }
  }
  return shares;
}

Shares even_shares(Slice whole, int n) { return divide({whole}, n); }

Shares all_to(int owner, const Slices& slices, int n) {
  Shares shares(n);
  shares[owner] = slices;
  return shares;
}

Slices merged(Slices slices) {
  std::ranges::sort(slices, {}, &Slice::begin);
  Slices out;
  for (const Slice s : slices) {
    if (s.empty()) continue;
    if (!out.empty() && out.back().end == s.begin) {
      out.back().end = s.end;
    } else {
      out.push_back(s);
    }
  }
  return out;
}

Slices united(const Shares& shares, int begin, int end) {
  Slices all;
  for (int i = begin; i < end; ++i) all.insert(all.end(), shares[i].begin(), shares[i].end());
  return merged(std::move(all));
}

Slices united(const Shares& shares) { return united(shares, 0, static_cast<int>(shares.size())); }

std::vector<int> seen_from(const Schedule& out, const Group& g,
                           std::initializer_list<int> distances) {
  if (out.viewer() == Schedule::kEveryone) return Group::range(g.size()).ranks();
  const int viewer = g.index_of(out.viewer());
  std::vector<int> indices;
  if (viewer < 0) return indices;
  for (const int distance : distances) indices.push_back(g.wrap(viewer - distance));
  std::ranges::sort(indices);
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

}  // namespace echelon
