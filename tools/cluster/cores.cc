// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "lib/base/error.h"

namespace echelon::cluster {
namespace {

// 0 when the kernel does not say, as in some virtual machines.
int topology_number(int cpu, const char* name) {
  std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, name));
  int value = 0;
  return in >> value ? value : 0;
}

// How many cores each host gets, where there are no fewer cores than hosts: always one more for
// whoever has the most ranks on each of its own.
std::vector<std::size_t> shares(std::size_t cores, const std::vector<int>& ranks) {
  std::vector<std::size_t> out(ranks.size(), 1);
  for (std::size_t given = ranks.size(); given < cores; ++given) {
    std::size_t next = 0;
    for (std::size_t h = 1; h < ranks.size(); ++h) {
      if (static_cast<std::size_t>(ranks[h]) * out[next] >
          static_cast<std::size_t>(ranks[next]) * out[h])
        next = h;
    }
    ++out[next];
  }
  return out;
}

// The core of each host: the largest first, each where the fewest ranks are.
std::vector<std::size_t> crowd(std::size_t cores, const std::vector<int>& ranks) {
  std::vector<std::size_t> order(ranks.size()), out(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t h) { return ranks[h]; });
  std::vector<int> load(cores, 0);
  for (std::size_t h : order) {
    out[h] = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
    load[out[h]] += ranks[h];
  }
  return out;
}

}  // namespace

std::vector<Core> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw system_error("cannot read the affinity");
  std::map<std::pair<int, int>, Core> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const int package = topology_number(cpu, "physical_package_id");
    Core& core = cores[{package, topology_number(cpu, "core_id")}];
    core.package = package;
    core.cpus.push_back(cpu);
  }
  std::vector<Core> out;
  for (auto& entry : cores) out.push_back(std::move(entry.second));
  return out;
}

std::vector<std::vector<int>> share_cores(const std::vector<Core>& cores,
                                          const std::vector<int>& ranks) {
  std::vector<std::vector<int>> out(ranks.size());
  if (ranks.size() > cores.size()) {
    const std::vector<std::size_t> core = crowd(cores.size(), ranks);
    for (std::size_t h = 0; h < ranks.size(); ++h) out[h] = cores[core[h]].cpus;
    return out;
  }
  std::size_t next = 0;
  const std::vector<std::size_t> counts = shares(cores.size(), ranks);
  for (std::size_t h = 0; h < ranks.size(); ++h) {
    for (std::size_t n = 0; n < counts[h]; ++n, ++next)
      out[h].insert(out[h].end(), cores[next].cpus.begin(), cores[next].cpus.end());
  }
  return out;
}

}  // namespace echelon::cluster
