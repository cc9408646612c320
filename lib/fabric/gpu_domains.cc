// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/gpu_domains.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/fabric/gpu_links.h"

namespace echelon {
namespace {

// The domain that all of these ranks' GPUs are in; "" when there is none.
std::string domain_of(const Fabric& fabric, std::span<const RankPlace> places,
                      const std::vector<int>& ranks) {
  std::string found;
  for (int rank : ranks) {
    const std::vector<Gpu>& gpus = fabric.hosts[places[rank].host].gpus;
    const int index = places[rank].gpu;
    if (index < 0 || static_cast<std::size_t>(index) >= gpus.size()) return "";
    const Gpu& gpu = gpus[index];
    if (gpu.fabric_uuid.empty()) return "";
    const std::string name = fmt::format("{} {}", gpu.fabric_uuid, gpu.clique);
    if (!found.empty() && name != found) return "";
    found = name;
  }
  return found;
}

int rack_of(const Layout& layout, int rank) {
  const Tier* racks = layout.tier(TierKind::kRack);
  if (racks == nullptr) return 0;
  const auto has_it = [&](const TierGroup& g) { return g.ranks.index_of(rank) >= 0; };
  return static_cast<int>(std::ranges::find_if(racks->groups, has_it) - racks->groups.begin());
}

Tier domain_tier(const Fabric& fabric, const std::vector<Group>& domains) {
  Tier tier{TierKind::kDomain, {}};
  for (const Group& domain : domains) {
    TierGroup& group = tier.groups.emplace_back();
    group.ranks = domain;
    for (int rank : domain.ranks()) group.children.push_back(Group({rank}));
    group.child_bandwidth.assign(group.children.size(), 0);
    group.link = default_link(LinkKind::kShm);
    say_of_tier(fabric, tier.kind, group.link);
  }
  return tier;
}

using WayOut = std::map<int, double>;  // of a domain, by its first rank, bytes/s

// Which domain every rank is in.
std::vector<int> domains_by_rank(const std::vector<Group>& domains, int size) {
  std::vector<int> of_rank(size);
  for (std::size_t d = 0; d < domains.size(); ++d)
    for (int rank : domains[d].ranks()) of_rank[rank] = static_cast<int>(d);
  return of_rank;
}

double narrower(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

// Children of one domain become one.
void merge_children(TierGroup& group, const std::vector<Group>& domains,
                    const std::vector<int>& domain_of, const WayOut& narrowed) {
  std::map<int, std::size_t> seen;  // by domain, index of its child
  std::vector<Group> children;
  std::vector<double> bandwidth;
  for (std::size_t c = 0; c < group.children.size(); ++c) {
    const Group& child = group.children[c];
    const double own = group.child_bandwidth[c];
    const int domain = domain_of[child[0]];
    const auto [at, is_new] = seen.try_emplace(domain, children.size());
    if (is_new) {
      children.push_back(child.size() < domains[domain].size() ? domains[domain] : child);
      const auto narrow = narrowed.find(child[0]);
      bandwidth.push_back(narrower(own, narrow == narrowed.end() ? 0 : narrow->second));
    } else {
      double& all = bandwidth[at->second];
      all = all > 0 && own > 0 ? all + own : 0;
    }
  }
  group.children = std::move(children);
  group.child_bandwidth = std::move(bandwidth);
}

// What the hosts of each group of a tier have together.
WayOut together(const Tier& tier) {
  WayOut out;
  for (const TierGroup& group : tier.groups) {
    const auto& all = group.child_bandwidth;
    out[group.ranks[0]] = std::reduce(all.begin(), all.end(), 0.0);
  }
  return out;
}

}  // namespace

std::vector<Group> gpu_groups(const Layout& layout, const Fabric& fabric,
                              std::span<const RankPlace> places, const GpuUse& use) {
  std::map<std::string, std::vector<int>> members;
  for (int host = 0; host < layout.host_count(); ++host) {
    const std::vector<int> ranks = layout.ranks_of_host(host);
    const std::string domain = use.domains ? domain_of(fabric, places, ranks) : "";
    std::vector<int>& all = domain.empty()
                                ? members[fmt::format("host {}", host)]
                                : members[fmt::format("{} {}", rack_of(layout, ranks[0]), domain)];
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  std::vector<Group> groups;
  for (auto& [name, ranks] : members) {
    std::ranges::sort(ranks);
    groups.emplace_back(std::move(ranks));
  }
  std::ranges::sort(groups, {}, [](const Group& g) { return g[0]; });
  return groups;
}

Layout over_domains(Layout layout, const Fabric& fabric, const std::vector<Group>& domains) {
  if (static_cast<int>(domains.size()) == layout.host_count()) return layout;
  std::vector<Tier> tiers{domain_tier(fabric, domains)};
  const std::vector<int> domain_of = domains_by_rank(domains, layout.size);
  WayOut narrowed;
  for (Tier& tier : layout.tiers) {
    if (tier.kind == TierKind::kSocket || tier.kind == TierKind::kHost) continue;
    if (tier.groups.size() == domains.size()) {  // tiers are nested: it repeats them
      narrowed = together(tier);
      continue;
    }
    for (TierGroup& group : tier.groups) merge_children(group, domains, domain_of, narrowed);
    narrowed.clear();
    tiers.push_back(std::move(tier));
  }
  layout.tiers = std::move(tiers);
  return layout;
}

}  // namespace echelon
