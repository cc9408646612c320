// SPDX-License-Identifier: Apache-2.0
// Merging, spreading and choosing NICs. The layout itself: make_layout.cc.
#include "lib/fabric/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "lib/base/error.h"

namespace echelon {
namespace {

std::string same_name_warning(const Host& host) {
  return fmt::format(
      "two hosts are called {}, but are different machines (or containers): they are kept apart",
      host.name);
}

int capacity(const Host& host) {
  if (host.ranks > 0) return host.ranks;
  return host.gpus.empty() ? 1 : static_cast<int>(host.gpus.size());
}

// Rank `i` of `n` on a host.
RankPlace place_on(const Host& host, int i, int n) {
  RankPlace place;
  const int packages = static_cast<int>(host.packages.size());
  if (static_cast<std::size_t>(i) < host.gpus.size()) {
    place.gpu = i;
    place.package = package_of_numa(host, host.gpus[i].numa);
  }
  if (place.package < 0 && packages > 0) place.package = i * packages / n;
  if (place.package >= 0) place.cpus = host.packages[place.package].cpus;
  return place;
}

std::vector<int> near_nics(const Host& host, const RankPlace& place) {
  const bool has_gpu = place.gpu >= 0 && static_cast<std::size_t>(place.gpu) < host.gpus.size();
  if (has_gpu) {
    std::vector<int> near = nearest_nics(host, place.gpu);
    if (near.size() < usable_nics(host).size()) return near;  // else its cores decide
  }
  if (place.cpus.empty() && place.package >= 0 &&
      static_cast<std::size_t>(place.package) < host.packages.size())
    return nearest_nics(host, host.packages[place.package].cpus);
  return nearest_nics(host, place.cpus);
}

using Choice = std::vector<std::vector<int>>;  // NICs of each local rank

// Local ranks that are near the same NICs share those.
Choice deal_nearest(const std::vector<std::vector<int>>& near) {
  std::map<std::vector<int>, std::vector<std::size_t>> sharers;
  for (std::size_t i = 0; i < near.size(); ++i) sharers[near[i]].push_back(i);
  Choice choice(near.size());
  for (const auto& [nics, ranks] : sharers) {
    for (std::size_t k = 0; k < std::max(nics.size(), ranks.size()) && !nics.empty(); ++k)
      choice[ranks[k % ranks.size()]].push_back(nics[k % nics.size()]);
  }
  return choice;
}

void deal_idle(const Host& host, Choice& choice) {
  std::set<int> used;
  for (const std::vector<int>& nics : choice) used.insert(nics.begin(), nics.end());
  std::size_t next = 0;
  for (int nic : usable_nics(host))
    if (!used.contains(nic)) choice[next++ % choice.size()].push_back(nic);
}

}  // namespace

Merged merge(std::span<const Host> host_of_each_rank) {
  Merged out;
  std::unordered_map<std::string, int> by_id;
  std::set<std::string> names;
  for (const Host& host : host_of_each_rank) {
    const std::string& id = host.id.empty() ? host.name : host.id;
    const auto [at, is_new] = by_id.try_emplace(id, static_cast<int>(out.fabric.hosts.size()));
    out.host_of_rank.push_back(at->second);
    if (!is_new) continue;
    if (!names.insert(host.name).second) out.fabric.warnings.push_back(same_name_warning(host));
    out.fabric.hosts.push_back(host);
  }
  return out;
}

std::vector<RankPlace> spread_ranks(const Fabric& fabric, int count) {
  std::vector<RankPlace> places;
  int room = 0;
  for (const Host& host : fabric.hosts) room += capacity(host);
  if (count == 0) count = room;
  if (count < 0 || count > room)
    throw invalid(fmt::format(
        "{} ranks wanted, but the fabric's {} host{} hold{} {}; \"ranks =\" of a [[host]] in the "
        "fabric file says how many it holds",
        count, fabric.hosts.size(), fabric.hosts.size() == 1 ? "" : "s",
        fabric.hosts.size() == 1 ? "s" : "", room));
  for (std::size_t h = 0; h < fabric.hosts.size(); ++h) {
    const Host& host = fabric.hosts[h];
    const int n = std::min(capacity(host), count - static_cast<int>(places.size()));
    for (int i = 0; i < n; ++i) {
      places.push_back(place_on(host, i, n));
      places.back().host = static_cast<int>(h);
    }
  }
  return places;
}

std::vector<int> nics_of_rank(const Fabric& fabric, std::span<const RankPlace> places, int rank) {
  const Host& host = fabric.hosts.at(places[rank].host);
  std::vector<std::vector<int>> near;
  std::size_t self = 0;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r].host != places[rank].host) continue;
    if (static_cast<int>(r) == rank) self = near.size();
    near.push_back(near_nics(host, places[r]));
  }
  Choice choice = deal_nearest(near);
  deal_idle(host, choice);
  return choice[self];
}

std::vector<std::string> ucx_devices(const Host& host, std::span<const int> nics) {
  std::vector<std::string> list;
  for (int i : nics) {
    const Nic& nic = host.nics.at(i);
    if (!nic.rdma_device.empty())
      list.push_back(fmt::format("{}:{}", nic.rdma_device, nic.rdma_port));
    if (nic.name != nic.rdma_device) list.push_back(nic.name);
  }
  return list;
}

}  // namespace echelon
