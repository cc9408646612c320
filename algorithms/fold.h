// SPDX-License-Identifier: Apache-2.0
// How algorithms for powers of two serve any number of members: of n members, with p the largest
// power of two <= n, the first 2(n-p) form pairs (0,1), (2,3), ... in which the even member acts
// for both while the odd one rests. The acting members and the unpaired ones are the core.
// Source: Rabenseifner, Traff, "More efficient reduction algorithms for non-power-of-two number of
// processors in message-passing parallel systems", EuroPVM/MPI 2004.
#pragma once

#include <bit>

#include "algorithms/shares.h"
#include "lib/schedule/schedule.h"

namespace echelon {

class Fold {
 public:
  explicit Fold(const Group& g)
      : core_size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(g.size())))),
        pairs_(g.size() - core_size_) {
    std::vector<int> core;
    for (int k = 0; k < core_size_; ++k) core.push_back(g[first(k)]);
    core_ = Group(std::move(core));
  }

  const Group& core() const { return core_; }  // p members
  int pairs() const { return pairs_; }         // n - p; pair k is members 2k (acts), 2k+1 (rests)

  // What core member k owns, for itself and for the member it acts for.
  Shares core_shares(const Shares& shares) const {
    Shares folded(core_size_);
    for (int k = 0; k < core_size_; ++k) folded[k] = united(shares, first(k), first(k + 1));
    return folded;
  }

 private:
  int first(int k) const { return k < pairs_ ? 2 * k : k + pairs_; }

  int core_size_;
  int pairs_;
  Group core_;
};

}  // namespace echelon
