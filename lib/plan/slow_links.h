// SPDX-License-Identifier: Apache-2.0
// Which links give less than plans assume of them, from what the ranks have seen while they used
// them. Pure: what all ranks are given alike, all find alike.
//
// Thread safety: one thread at a time.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "lib/fabric/layout.h"

namespace echelon {

// What one rank has sent to the ranks of a host.
struct SentToHost {
  int rank = 0;
  int host = 0;  // index, not its own
  double bytes = 0;
  double seconds = 0;  // that it took
};

// From one child of a tier's group to another: what its ranks got together, and what plans assume.
struct LinkRate {
  std::size_t tier = 0, group = 0, from = 0, to = 0;  // indices: tiers, groups, children
  double measured = 0, assumed = 0;                   // bytes/s
  double bytes = 0;
  double disproved = 0;  // TierGroup::disproved
  // Of the slowest link of another network, between hosts or racks, as assumed or as measured.
  double narrowest = std::numeric_limits<double>::infinity();

  double part() const { return measured / assumed; }
  // A link that shows twice what the slowest of another network does waits for that one, a message
  // at a time, and shows their latency: where racks send a buffer each, a host of theirs sends two
  // at most in plans that are quick. Uplinks that wait for hosts limit even less.
  bool is_slow() const {
    const double believed = disproved > 0 ? std::min(assumed, disproved) : assumed;
    return measured < believed / 2 && measured < 2 * narrowest;
  }
};

// Ordered by tier, group, from, to. Ranks and hosts that the layout does not have are left out.
std::vector<LinkRate> link_rates(const Layout& layout, const std::vector<SentToHost>& sent);

// A link that is slow, and which of its ends to blame: the one that is no better with others.
struct SlowLink {
  LinkRate rate;
  std::size_t child = 0;  // rate.from or rate.to
};

class SlowLinks {
 public:
  static constexpr int kPeriods = 3;                // in a row, before a link is called slow
  static constexpr double kEnough = 4 * (1 << 20);  // bytes in each of them

  // The rates of one more period. At most one per child, and each child once, unless what plans
  // assume of it has changed and it is slow for that, too.
  std::vector<SlowLink> judge(const std::vector<LinkRate>& rates);

 private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  struct Streak {
    int periods = 0;
    LinkRate best;
  };
  std::map<Key, Streak> streaks_;
};

// Has plans take what was measured.
void take_over(const SlowLink& link, Layout& layout);

// "host1", "host1 and host2", "host1, host2 and 3 more hosts".
std::string hosts_of(const Layout& layout, const Group& child);

// "the link from host1 to host2 gives 23.4 MB/s, less than half of the 119.6 MB/s that ..."
std::string describe(const SlowLink& link, const Layout& layout);

}  // namespace echelon
