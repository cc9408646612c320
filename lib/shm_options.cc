// SPDX-License-Identifier: Apache-2.0
#include "lib/shm_options.h"

#include <algorithm>
#include <vector>

namespace echelon {
namespace {

void count(shm::Thresholds& thresholds, const CacheLevel& cache) {
  const std::size_t before = thresholds.caches == SIZE_MAX ? 0 : thresholds.caches;
  thresholds.cache = std::min(thresholds.cache, cache.bytes);
  thresholds.caches = before + cache.bytes * std::max(cache.cpus.size(), std::size_t{1});
}

}  // namespace

CpuSet cached_cpus(const Host& host) {
  CpuSet all;
  for (const CacheLevel& cache : host.caches)
    if (cache.level == 3)
      for (const CpuSet& cpus : cache.cpus) all.add(cpus);
  return all;
}

HostShare host_share(std::size_t rank, std::span<const RankPlace> places, const Fabric& fabric) {
  const RankPlace& own = places[rank];
  const CpuSet cpus = cached_cpus(fabric.hosts[own.host]);
  double own_ranks = 0, all = 0;
  std::vector<RankPlace> on_cpus;
  for (const RankPlace& place : places) {
    const bool here = place.host == own.host;
    const bool near = !own.machine.empty() && place.machine == own.machine;
    if (here || (near && place.cpus.intersects(own.cpus))) on_cpus.push_back(place);
    own_ranks += here ? 1 : 0;
    all += here || (near && cpus.intersects(cached_cpus(fabric.hosts[place.host]))) ? 1 : 0;
  }
  return {own_ranks / all, cpus_per_rank(on_cpus) < 1};
}

ShmOptions shm_options(std::string_view single_copy, const TunedSharedMemory& tuned,
                       const Host& host, const HostShare& share) {
  ShmOptions out;
  shm::Thresholds& t = out.thresholds;
  if (single_copy == "on") t.read = shm::kSingleCopyFrom;
  if (single_copy != "auto") t.address = single_copy == "on";
  if (single_copy == "auto") t.read = tuned.read.value_or(t.read);
  // One size for hosts with two ranks and with more: the file holds for as many as it names.
  t.one_shot = tuned.one_shot.value_or(t.one_shot);
  t.one_shot_pair = tuned.one_shot.value_or(t.one_shot_pair);
  t.direct = tuned.direct.value_or(t.direct);
  static_assert(TunedSharedMemory::kCalls.size() * TunedSharedMemory::kSizes == shm::kTrialClasses);
  out.known = {tuned.stores, tuned.kernel_copy, tuned.results};
  for (const CacheLevel& cache : host.caches)
    if (cache.level == 3 && cache.bytes > 0) count(t, cache);
  if (t.caches < SIZE_MAX)
    t.caches = static_cast<std::size_t>(share.caches * static_cast<double>(t.caches));
  t.crowded = share.crowded;
  return out;
}

}  // namespace echelon
