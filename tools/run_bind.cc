// SPDX-License-Identifier: Apache-2.0
#include "tools/run_bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.h"

namespace echelon::run {
namespace {

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

std::vector<int> cpus_of_slot(const std::vector<Core>& cores, Bind bind, int slot, int slots) {
  const std::size_t count = cores.size();
  const auto s = static_cast<std::size_t>(slot), n = static_cast<std::size_t>(slots);
  if (bind == Bind::kNone || count == 0) return {};
  if (bind == Bind::kSocket) return cpus_of_package(cores, slot, slots);
  if (n > count) {
    if (bind == Bind::kAuto) return {};
    throw invalid(fmt::format(
        "--bind core: {} ranks, but {} cores; leave --bind out or use --bind none", slots, count));
  }
  return join(cores, s * count / n, (s + 1) * count / n);
}

}  // namespace echelon::run
