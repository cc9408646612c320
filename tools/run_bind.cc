// SPDX-License-Identifier: Apache-2.0
#include "tools/run_bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "lib/base/error.h"

namespace echelon::run {
namespace {

// 0 when the kernel does not say, as in some virtual machines.
int topology_number(int cpu, const char* name) {
  std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, name));
  int value = 0;
  return in >> value ? value : 0;
}

std::vector<int> join(const std::vector<Core>& cores, std::size_t first, std::size_t last) {
  std::vector<int> out;
  for (std::size_t i = first; i < last; ++i) {
    out.insert(out.end(), cores[i].cpus.begin(), cores[i].cpus.end());
  }
  return out;
}

std::vector<int> cpus_of_package(const std::vector<Core>& cores, int slot, int slots) {
  std::vector<int> packages;
  for (const Core& core : cores) {
    if (packages.empty() || packages.back() != core.package) packages.push_back(core.package);
  }
  const std::size_t index =
      static_cast<std::size_t>(slot) * packages.size() / static_cast<std::size_t>(slots);
  std::vector<Core> chosen;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(chosen),
               [&](const Core& core) { return core.package == packages[index]; });
  return join(chosen, 0, chosen.size());
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

std::vector<int> cpus_of_slot(const std::vector<Core>& cores, Bind bind, int slot, int slots) {
  const std::size_t count = cores.size();
  const auto s = static_cast<std::size_t>(slot), n = static_cast<std::size_t>(slots);
  if (bind == Bind::kNone || count == 0) return {};
  if (bind == Bind::kSocket) return cpus_of_package(cores, slot, slots);
  if (n > count) {
    if (bind == Bind::kAuto) return {};
    throw invalid(
        fmt::format("--bind core: {} ranks, but {} cores; use --bind none", slots, count));
  }
  return join(cores, s * count / n, (s + 1) * count / n);
}

}  // namespace echelon::run
