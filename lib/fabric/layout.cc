// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace echelon {
namespace {

constexpr TierKind kTierKinds[] = {TierKind::kSocket, TierKind::kHost, TierKind::kDomain,
                                   TierKind::kRack, TierKind::kCluster};

using Partition = std::vector<std::vector<int>>;

Partition ranks_of(const std::vector<Group>& groups) {
  Partition out;
  for (const Group& g : groups) out.push_back(g.ranks());
  return out;
}

Partition ranks_of(const std::vector<TierGroup>& groups) {
  Partition out;
  for (const TierGroup& g : groups) out.push_back(g.ranks.ranks());
  return out;
}

// Whether `parts` are nonempty, ascending, ordered by first rank, and exactly `whole` together.
bool partitions(const Partition& parts, std::vector<int> whole) {
  std::vector<int> all;
  int last_first = -1;
  for (const std::vector<int>& part : parts) {
    if (part.empty() || part[0] <= last_first) return false;
    if (std::adjacent_find(part.begin(), part.end(), std::greater_equal<>()) != part.end())
      return false;
    last_first = part[0];
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  return all == whole;
}

std::string check_group(const TierGroup& group) {
  const std::vector<int>& ranks = group.ranks.ranks();
  if (!std::is_sorted(ranks.begin(), ranks.end())) return "its ranks are not ascending";
  if (!partitions(ranks_of(group.children), ranks))
    return "its children do not partition it in rank order";
  if (group.child_bandwidth.size() != group.children.size())
    return fmt::format("it has {} children, but {} child bandwidths", group.children.size(),
                       group.child_bandwidth.size());
  if (!(group.link.bytes_per_second > 0) || !(group.link.latency >= 0))
    return "its link has no bandwidth or a negative latency";
  const auto negative = [](double b) { return !(b >= 0); };
  if (std::any_of(group.child_bandwidth.begin(), group.child_bandwidth.end(), negative))
    return "a child bandwidth is negative";
  return "";
}

// `below`: the groups of the tier below, ordered by first rank.
std::string check_tier(const Tier& tier, const Partition& below, const std::vector<int>& all) {
  const std::string where = fmt::format("tier {}", name(tier.kind));
  if (!partitions(ranks_of(tier.groups), all))
    return where + ": its groups do not partition the ranks in rank order";
  Partition children;
  for (const TierGroup& group : tier.groups) {
    if (const std::string wrong = check_group(group); !wrong.empty())
      return fmt::format("{}, group of rank {}: {}", where, group.ranks[0], wrong);
    for (const Group& child : group.children) children.push_back(child.ranks());
  }
  std::sort(children.begin(), children.end());
  if (children != below) return where + ": its children are not the groups of the tier below";
  if (tier.groups.size() == below.size())
    return where + ": it repeats the groups of the tier below";
  return "";
}

std::string check_hosts(const Layout& layout) {
  if (layout.host_of_rank.size() != static_cast<std::size_t>(layout.size))
    return fmt::format("host_of_rank has {} entries for {} ranks", layout.host_of_rank.size(),
                       layout.size);
  int seen = 0;
  for (int host : layout.host_of_rank) {
    if (host < 0 || host > seen) return "hosts are not numbered by their first rank";
    seen += host == seen ? 1 : 0;
  }
  if (seen != layout.host_count())
    return fmt::format("{} hosts have ranks, but {} are named", seen, layout.host_count());
  return "";
}

// No link is slower than what has passed it. Where that was more than the worse of the two children
// that were measured is said to reach, what the device said is no limit (a veth says 10 Gbit/s
// whatever it does), nor is it for those of which the same is said.
void raise_false_claims(TierGroup& group, double measured) {
  if (group.child_bandwidth.size() < 2) return;
  const double claim = std::min(group.child_bandwidth[0], group.child_bandwidth[1]);
  if (claim <= 0 || measured <= claim) return;
  std::ranges::replace(group.child_bandwidth, claim, measured);
  if (group.disproved == 0) group.disproved = claim;
  if (std::ranges::min(group.child_bandwidth) < measured) return;
  group.one_nic = std::max(group.one_nic, measured);
}

void apply_to_group(TierGroup& group, const Link& measured) {
  if (measured.latency > 0 && group.link.latency_source > Source::kFile) {
    group.link.latency = measured.latency;
    group.link.latency_source = Source::kMeasured;
  }
  if (!(measured.bytes_per_second > 0)) return;
  const double ratio = measured.bytes_per_second / group.link.bytes_per_second;
  if (group.link.source > Source::kFile) {
    group.link.bytes_per_second = measured.bytes_per_second;
    group.link.source = Source::kMeasured;
  }
  if (group.child_source == Source::kFile) return;
  for (double& b : group.child_bandwidth) b = std::min(b, b * ratio);
  group.one_nic = std::min(group.one_nic, group.one_nic * ratio);
  raise_false_claims(group, measured.bytes_per_second);
  group.child_source = Source::kMeasured;
}

}  // namespace

std::string_view name(TierKind kind) {
  constexpr std::string_view kNames[] = {"socket", "host", "domain", "rack", "cluster"};
  return kNames[static_cast<int>(kind)];
}

std::optional<TierKind> parse_tier_kind(std::string_view text) {
  for (TierKind kind : kTierKinds)
    if (name(kind) == text) return kind;
  return {};
}

std::vector<int> Layout::ranks_of_host(int host) const {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r)
    if (host_of_rank[r] == host) ranks.push_back(r);
  return ranks;
}

const Tier* Layout::tier(TierKind kind) const {
  for (const Tier& t : tiers)
    if (t.kind == kind) return &t;
  return nullptr;
}

std::string validate(const Layout& layout) {
  if (layout.size < 1) return fmt::format("a layout of {} ranks", layout.size);
  if (const std::string wrong = check_hosts(layout); !wrong.empty()) return wrong;
  std::vector<int> all(layout.size);
  std::iota(all.begin(), all.end(), 0);
  Partition below;
  for (int r : all) below.push_back({r});
  const Tier* last = nullptr;
  for (const Tier& tier : layout.tiers) {
    if (last != nullptr && tier.kind <= last->kind)
      return fmt::format("tier {} comes after tier {}", name(tier.kind), name(last->kind));
    if (const std::string wrong = check_tier(tier, below, all); !wrong.empty()) return wrong;
    below = ranks_of(tier.groups);
    last = &tier;
  }
  if (below.size() != 1) return "the last tier does not join all ranks";
  return "";
}

void apply_measured(Layout& layout, TierKind tier, const Link& measured) {
  for (Tier& t : layout.tiers) {
    if (t.kind != tier) continue;
    for (TierGroup& group : t.groups) apply_to_group(group, measured);
  }
}

}  // namespace echelon
