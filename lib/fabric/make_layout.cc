// SPDX-License-Identifier: Apache-2.0
// From placed ranks to tiers. A tier is first a numbering: the group of every rank, groups numbered
// by their first rank. Numberings that say nothing new are dropped, the rest becomes Tiers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/error.h"
#include "lib/fabric/place.h"

namespace echelon {
namespace {

struct Numbering {
  std::vector<int> group_of;  // by rank
  int groups = 0;
};

// Groups ranks with equal keys.
template <typename Key>
Numbering number(const std::vector<Key>& keys) {
  Numbering out;
  std::map<Key, int> seen;
  for (const Key& key : keys) {
    const auto [at, is_new] = seen.try_emplace(key, out.groups);
    out.groups += is_new ? 1 : 0;
    out.group_of.push_back(at->second);
  }
  return out;
}

std::vector<std::vector<int>> members(const Numbering& n) {
  std::vector<std::vector<int>> out(n.groups);
  for (std::size_t r = 0; r < n.group_of.size(); ++r)
    out[n.group_of[r]].push_back(static_cast<int>(r));
  return out;
}

// What the NICs of a host, or the uplink of a rack, give to those inside.
struct Reach {
  Link stream;  // one stream by the best NIC
  double together = 0;
  Source source = Source::kFile;  // of `together`
};

bool is_stated(const Quantity& q) { return q.known() && q.source != Source::kMeasured; }

class Builder {
 public:
  Builder(const Fabric& fabric, std::span<const RankPlace> places)
      : fabric_(fabric), places_(places) {}

  Layout build();

 private:
  int package(int rank) const;
  Numbering sockets() const;
  void measure_hosts();
  void add_tier(TierKind kind, const Numbering& below, const Numbering& here);
  void fill_network(TierKind kind, TierGroup& group);
  Reach reach_of_host(const Host& host);
  Reach reach_of_rack(const Group& ranks);
  Link stream_between(const Group& ranks) const;
  void add_measurements();
  bool is_within_one_host(const Group& ranks) const;
  int host_at(int rank) const { return layout_.host_of_rank[rank]; }

  const Fabric& fabric_;
  const std::span<const RankPlace> places_;
  Layout layout_;
  std::vector<int> rack_of_host_;  // by fabric host; -1: in none
  std::vector<Reach> reach_;       // by layout host
  int hosts_without_nic_ = 0;
  std::string first_without_nic_;
};

int Builder::package(int rank) const {
  const RankPlace& place = places_[rank];
  if (place.package >= 0 || place.cpus.empty()) return place.package;
  return package_of(fabric_.hosts[place.host], place.cpus);
}

// Ranks by host and package. A host is split only when the package of all its ranks is known.
Numbering Builder::sockets() const {
  std::vector<std::pair<int, int>> keys;
  std::set<int> unknown;
  for (int r = 0; r < layout_.size; ++r) {
    keys.emplace_back(places_[r].host, package(r));
    if (keys.back().second < 0) unknown.insert(places_[r].host);
  }
  for (auto& [host, package] : keys)
    if (unknown.contains(host)) package = -1;
  return number(keys);
}

Reach Builder::reach_of_host(const Host& host) {
  Reach reach;
  const std::vector<int> nics = usable_nics(host);
  for (int i : nics) {
    const Link link = link_of(host.nics[i]);
    if (link.bytes_per_second > reach.stream.bytes_per_second) reach.stream = link;
    reach.together += link.bytes_per_second;
    reach.source = std::max(reach.source, link.source);
  }
  if (nics.empty()) {
    reach.stream = default_link(LinkKind::kEthernet);
    reach.together = reach.stream.bytes_per_second;
    reach.source = Source::kDefault;
    if (hosts_without_nic_++ == 0) first_without_nic_ = host.name;
  }
  return reach;
}

// Hosts of one kind of machine look alike: the numbers are computed once per different NIC list.
void Builder::measure_hosts() {
  const Host* last = nullptr;
  for (int r = 0; r < layout_.size; ++r) {
    if (host_at(r) != static_cast<int>(reach_.size())) continue;
    const Host& host = fabric_.hosts[places_[r].host];
    const bool alike = last != nullptr && !host.nics.empty() && last->nics == host.nics;
    reach_.push_back(alike ? Reach(reach_.back()) : reach_of_host(host));
    last = &host;
  }
  if (hosts_without_nic_ > 0)
    layout_.warnings.push_back(
        fmt::format("{} hosts, the first is {}, have no nic in use: 1 gbit/s ethernet is assumed",
                    hosts_without_nic_, first_without_nic_));
}

// The uplink of the rack that holds `ranks`; all its hosts together where that is unknown.
Reach Builder::reach_of_rack(const Group& ranks) {
  const int rack = rack_of_host_[places_[ranks[0]].host];
  Reach reach;
  reach.source = Source::kDefault;
  if (rack >= 0 && fabric_.racks[rack].uplink.known()) {
    reach.together = fabric_.racks[rack].uplink.value;
    reach.source = fabric_.racks[rack].uplink.source;
    return reach;
  }
  std::set<int> hosts;
  for (int r : ranks.ranks()) hosts.insert(host_at(r));
  for (int h : hosts) reach.together += reach_[h].together;
  const std::string name = rack < 0 ? "of the hosts without a rack" : fabric_.racks[rack].name;
  layout_.warnings.push_back(
      fmt::format("the uplink of rack {} is unknown: the sum of its hosts is assumed", name));
  return reach;
}

// One stream between hosts is as good as the worse end.
Link Builder::stream_between(const Group& ranks) const {
  Link link = reach_[host_at(ranks[0])].stream;
  for (int r : ranks.ranks()) {
    const Link& other = reach_[host_at(r)].stream;
    if (other.bytes_per_second < link.bytes_per_second) {
      link.bytes_per_second = other.bytes_per_second;
      link.source = other.source;
    }
    if (other.latency > link.latency) {
      link.latency = other.latency;
      link.latency_source = other.latency_source;
    }
    link.kind = std::max(link.kind, other.kind);
  }
  return link;
}

void Builder::add_measurements() {
  for (const TierNumbers& numbers : fabric_.tiers) {
    if (is_stated(numbers.latency) && is_stated(numbers.bytes_per_second)) continue;
    Link link;
    link.latency = numbers.latency.value;
    link.bytes_per_second = numbers.bytes_per_second.value;
    apply_measured(layout_, numbers.tier, link);
  }
}

bool Builder::is_within_one_host(const Group& ranks) const {
  return std::all_of(ranks.ranks().begin(), ranks.ranks().end(),
                     [&](int r) { return host_at(r) == host_at(ranks[0]); });
}

void Builder::fill_network(TierKind kind, TierGroup& group) {
  group.link = stream_between(group.ranks);
  group.child_source = Source::kFile;
  for (const Group& child : group.children) {
    const bool host = is_within_one_host(child);
    Reach reach = host ? reach_[host_at(child[0])] : reach_of_rack(child);
    const double nic = reach.stream.bytes_per_second;
    if (host && (group.one_nic == 0 || nic < group.one_nic)) group.one_nic = nic;
    const int rack = rack_of_host_[places_[child[0]].host];
    // A rack of which only one host takes part: its uplink may still be the narrow place.
    if (host && kind == TierKind::kCluster && rack >= 0) {
      const Quantity& uplink = fabric_.racks[rack].uplink;
      if (uplink.known() && uplink.value < reach.together)
        reach = {reach.stream, uplink.value, uplink.source};
    }
    group.child_bandwidth.push_back(reach.together);
    group.child_source = std::max(group.child_source, reach.source);
  }
}

void Builder::add_tier(TierKind kind, const Numbering& below, const Numbering& here) {
  Tier tier{kind, std::vector<TierGroup>(here.groups)};
  for (std::vector<int>& child : members(below))
    tier.groups[here.group_of[child[0]]].children.emplace_back(std::move(child));
  std::vector<std::vector<int>> ranks = members(here);
  for (int g = 0; g < here.groups; ++g) {
    TierGroup& group = tier.groups[g];
    group.ranks = Group(std::move(ranks[g]));
    if (kind == TierKind::kRack || kind == TierKind::kCluster) {
      fill_network(kind, group);
    } else {
      group.link = default_link(LinkKind::kShm);
      group.child_bandwidth.assign(group.children.size(), 0);
    }
    say_of_tier(fabric_, kind, group.link);
  }
  layout_.tiers.push_back(std::move(tier));
}

Layout Builder::build() {
  layout_.size = static_cast<int>(places_.size());
  rack_of_host_.assign(fabric_.hosts.size(), -1);
  for (std::size_t i = 0; i < fabric_.racks.size(); ++i)
    for (int h : fabric_.racks[i].hosts) rack_of_host_.at(h) = static_cast<int>(i);

  std::vector<int> rank_keys, host_keys, rack_keys;
  for (int r = 0; r < layout_.size; ++r) {
    rank_keys.push_back(r);
    host_keys.push_back(places_[r].host);
    rack_keys.push_back(rack_of_host_[places_[r].host]);
  }
  const Numbering ranks = number(rank_keys), hosts = number(host_keys), racks = number(rack_keys);
  const Numbering all = number(std::vector<int>(layout_.size, 0)), socket = sockets();
  layout_.host_of_rank = hosts.group_of;
  for (const std::vector<int>& of_host : members(hosts))
    layout_.host_names.push_back(fabric_.hosts[places_[of_host[0]].host].name);
  measure_hosts();

  // The numberings are nested, so equal group counts mean equal groups.
  const Numbering* below = &ranks;
  const auto add = [&](TierKind kind, const Numbering& here, bool useful) {
    if (!useful || here.groups == below->groups) return;
    add_tier(kind, *below, here);
    below = &here;
  };
  add(TierKind::kSocket, socket, socket.groups != hosts.groups);
  add(TierKind::kHost, hosts, true);
  add(TierKind::kRack, racks, racks.groups != hosts.groups && racks.groups > 1);
  add(TierKind::kCluster, all, hosts.groups > 1);
  add_measurements();
  return std::move(layout_);
}

}  // namespace

void say_of_tier(const Fabric& fabric, TierKind kind, Link& link) {
  for (const TierNumbers& numbers : fabric.tiers) {
    if (numbers.tier != kind) continue;
    if (numbers.kind) link.kind = *numbers.kind;
    if (is_stated(numbers.latency)) {
      link.latency = numbers.latency.value;
      link.latency_source = numbers.latency.source;
    }
    if (!is_stated(numbers.bytes_per_second)) continue;
    link.bytes_per_second = numbers.bytes_per_second.value;
    link.source = numbers.bytes_per_second.source;
  }
}

double cpus_per_rank(std::span<const RankPlace> places) {
  struct Machine {
    CpuSet cpus;
    int ranks = 0;
    bool known = true;
  };
  std::map<std::string, Machine> machines;
  for (const RankPlace& place : places) {
    Machine& m = machines[place.machine.empty() ? std::to_string(place.host) : place.machine];
    m.cpus.add(place.cpus);
    ++m.ranks;
    m.known = m.known && !place.cpus.empty();
  }
  double least = 1;
  for (const auto& [id, m] : machines)
    if (m.known) least = std::min(least, static_cast<double>(m.cpus.count()) / m.ranks);
  return least;
}

Layout make_layout(const Fabric& fabric, std::span<const RankPlace> places) {
  const int hosts = static_cast<int>(fabric.hosts.size());
  for (std::size_t r = 0; r < places.size(); ++r)
    if (places[r].host < 0 || places[r].host >= hosts)
      throw invalid(fmt::format("rank {} is placed on host {}; expected 0 to {}", r, places[r].host,
                                hosts - 1));
  Layout layout = Builder(fabric, places).build();
  layout.cpus_per_rank = cpus_per_rank(places);
  return layout;
}

}  // namespace echelon
