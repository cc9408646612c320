// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/ways.h"

#include <cstring>
#include <string>
#include <vector>

namespace echelon::tune {

std::uint64_t agreed(std::span<const std::uint64_t> words) {
  std::uint64_t out = 0;
  for (int c = 0; c < shm::kTrialClasses; ++c) {
    bool usual = false, other = false;
    for (std::uint64_t word : words) {
      usual = usual || shm::finding_in(word, c) == shm::Finding::kUsual;
      other = other || shm::finding_in(word, c) == shm::Finding::kOther;
    }
    if (usual != other) out |= shm::word_of(other ? shm::Finding::kOther : shm::Finding::kUsual, c);
  }
  return out;
}

int count_others(std::uint64_t word) {
  int out = 0;
  for (int c = 0; c < shm::kTrialClasses; ++c)
    out += shm::finding_in(word, c) == shm::Finding::kOther ? 1 : 0;
  return out;
}

void keep_ways(const perf::Comm& comm, const shm::KnownWays& own, TunedSharedMemory& tuned) {
  const std::string all = comm.gather({reinterpret_cast<const char*>(&own), sizeof own});
  std::vector<std::uint64_t> stores, reading, results;
  for (std::size_t at = 0; at < all.size(); at += sizeof own) {
    shm::KnownWays ways;
    std::memcpy(&ways, all.data() + at, sizeof ways);
    stores.push_back(ways.stores);
    reading.push_back(ways.reading);
    results.push_back(ways.results);
  }
  tuned.stores = agreed(stores);
  tuned.kernel_copy = agreed(reading);
  tuned.results = agreed(results);
}

}  // namespace echelon::tune
