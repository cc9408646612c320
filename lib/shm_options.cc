// SPDX-License-Identifier: Apache-2.0
#include "lib/shm_options.h"

#include <algorithm>

namespace echelon {
namespace {

void count(shm::Thresholds& thresholds, const CacheLevel& cache) {
  const std::size_t before = thresholds.caches == SIZE_MAX ? 0 : thresholds.caches;
  thresholds.cache = std::min(thresholds.cache, cache.bytes);
  thresholds.caches = before + cache.bytes * std::max(cache.cpus.size(), std::size_t{1});
}

}  // namespace

ShmOptions shm_options(std::string_view single_copy, const TunedThresholds& tuned,
                       const Host& host) {
  ShmOptions out;
  shm::Thresholds& t = out.thresholds;
  if (single_copy == "on") t.read = shm::kSingleCopyFrom;
  if (single_copy == "auto") t.read = tuned.read.value_or(t.read);
  // One size for hosts with two ranks and with more: the file holds for as many as it names.
  t.one_shot = tuned.one_shot.value_or(t.one_shot);
  t.one_shot_pair = tuned.one_shot.value_or(t.one_shot_pair);
  t.direct = tuned.direct.value_or(t.direct);
  t.stream = tuned.stream;
  for (const CacheLevel& cache : host.caches)
    if (cache.level == 3 && cache.bytes > 0) count(t, cache);
  return out;
}

}  // namespace echelon
