// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/slow_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "lib/plan/model.h"

namespace echelon {
namespace {

using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;

Key key_of(const LinkRate& r) { return {r.tier, r.group, r.from, r.to}; }

std::size_t holder(const std::vector<Group>& groups, int rank) {
  return std::ranges::find_if(groups, [&](const Group& g) { return g.index_of(rank) >= 0; }) -
         groups.begin();
}

// The link that messages between two ranks of different hosts take.
std::optional<Key> link_between(const Layout& layout, int from, int to) {
  for (std::size_t t = 0; t < layout.tiers.size(); ++t) {
    const Tier& tier = layout.tiers[t];
    for (std::size_t g = 0; g < tier.groups.size(); ++g) {
      const TierGroup& group = tier.groups[g];
      if (group.ranks.index_of(from) < 0 || group.ranks.index_of(to) < 0) continue;
      return Key{t, g, holder(group.children, from), holder(group.children, to)};
    }
  }
  return std::nullopt;
}

int first_rank_of(const Layout& layout, int host) {
  const auto at = std::ranges::find(layout.host_of_rank, host);
  return at == layout.host_of_rank.end() ? -1 : static_cast<int>(at - layout.host_of_rank.begin());
}

// The best that a child has shown with any other, as a part of what was assumed.
double best_part(const std::vector<LinkRate>& rates, const LinkRate& of, std::size_t child) {
  double best = 0;
  for (const LinkRate& r : rates) {
    const bool same = r.tier == of.tier && r.group == of.group;
    if (same && (r.from == child || r.to == child)) best = std::max(best, r.part());
  }
  return best;
}

// What plans assume of the slowest link of a tier between hosts or racks; of others, infinity.
double slowest_assumed(const Tier& tier) {
  double least = std::numeric_limits<double>::infinity();
  if (tier.kind == TierKind::kSocket || is_served_as_one(tier.kind)) return least;
  for (const TierGroup& group : tier.groups)
    for (std::size_t c = 0; c < group.children.size() && group.children.size() > 1; ++c)
      least = std::min(least, child_speed(group, c, group.children[c].size()));
  return least;
}

void find_narrowest(const Layout& layout, std::vector<LinkRate>& rates) {
  std::vector<double> slowest;  // by tier
  for (const Tier& tier : layout.tiers) slowest.push_back(slowest_assumed(tier));
  for (const LinkRate& rate : rates)
    if (rate.bytes >= SlowLinks::kEnough)
      slowest[rate.tier] = std::min(slowest[rate.tier], rate.measured);
  for (LinkRate& rate : rates)
    for (std::size_t t = 0; t < slowest.size(); ++t)
      if (t != rate.tier) rate.narrowest = std::min(rate.narrowest, slowest[t]);
}

}  // namespace

std::vector<LinkRate> link_rates(const Layout& layout, const std::vector<SentToHost>& sent) {
  struct Sum {
    double bytes = 0, seconds = 0;
  };
  std::map<Key, std::map<int, Sum>> by_link;  // then by rank
  for (const SentToHost& s : sent) {
    if (s.rank < 0 || s.rank >= layout.size || !(s.bytes > 0) || !(s.seconds > 0)) continue;
    const int to = first_rank_of(layout, s.host);
    if (to < 0 || s.host == layout.host_of_rank[s.rank]) continue;
    const auto link = link_between(layout, s.rank, to);
    if (!link) continue;
    Sum& sum = by_link[*link][s.rank];
    sum.bytes += s.bytes;
    sum.seconds += s.seconds;
  }
  std::vector<LinkRate> rates;
  for (const auto& [key, ranks] : by_link) {
    const auto& [tier, at, from, to] = key;
    const TierGroup& group = layout.tiers[tier].groups[at];
    LinkRate rate{tier, at, from, to};
    rate.disproved = group.disproved;
    for (const auto& [rank, sum] : ranks) {
      rate.measured += sum.bytes / sum.seconds;
      rate.bytes += sum.bytes;
    }
    const int streams = static_cast<int>(ranks.size());
    rate.assumed = std::min(child_speed(group, from, streams), child_speed(group, to, streams));
    rates.push_back(rate);
  }
  find_narrowest(layout, rates);
  return rates;
}

std::vector<SlowLink> SlowLinks::judge(const std::vector<LinkRate>& rates) {
  std::vector<SlowLink> found;
  for (const LinkRate& rate : rates) {
    if (rate.bytes < kEnough) continue;
    Streak& streak = streaks_[key_of(rate)];
    if (!rate.is_slow()) streak = {};
    if (!rate.is_slow()) continue;
    if (streak.periods++ == 0 || rate.measured > streak.best.measured) streak.best = rate;
    if (streak.periods < kPeriods) continue;
    const auto standing = [&](std::size_t child) {
      return std::pair(best_part(rates, rate, child), child);
    };
    const bool sender = standing(rate.from) < standing(rate.to);
    found.push_back({streak.best, sender ? rate.from : rate.to});
    streak = {};
  }
  // Of several links of one child the best: that is what the child can do.
  std::ranges::sort(found, [](const SlowLink& a, const SlowLink& b) {
    return std::tuple(a.rate.tier, a.rate.group, a.child, -a.rate.measured) <
           std::tuple(b.rate.tier, b.rate.group, b.child, -b.rate.measured);
  });
  const auto same = [](const SlowLink& a, const SlowLink& b) {
    return a.rate.tier == b.rate.tier && a.rate.group == b.rate.group && a.child == b.child;
  };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  return found;
}

void take_over(const SlowLink& link, Layout& layout) {
  set_child_speed(layout.tiers[link.rate.tier].groups[link.rate.group], link.child,
                  link.rate.measured);
}

std::string hosts_of(const Layout& layout, const Group& child) {
  std::vector<int> hosts;
  for (int rank : child.ranks())
    if (std::ranges::find(hosts, layout.host_of_rank[rank]) == hosts.end())
      hosts.push_back(layout.host_of_rank[rank]);
  const std::string first = layout.host_names[hosts[0]];
  if (hosts.size() == 1) return first;
  const std::string second = layout.host_names[hosts[1]];
  if (hosts.size() == 2) return fmt::format("{} and {}", first, second);
  return fmt::format("{}, {} and {} more hosts", first, second, hosts.size() - 2);
}

std::string describe(const SlowLink& link, const Layout& layout) {
  const TierGroup& group = layout.tiers[link.rate.tier].groups[link.rate.group];
  return fmt::format(
      "the link from {} to {} gives {:.4g} MB/s, less than half of the {:.4g} MB/s that was "
      "assumed ({}); plans now take that for the link of {}",
      hosts_of(layout, group.children[link.rate.from]),
      hosts_of(layout, group.children[link.rate.to]), link.rate.measured / 1e6,
      link.rate.assumed / 1e6, name(group.child_source),
      hosts_of(layout, group.children[link.child]));
}

}  // namespace echelon
