// SPDX-License-Identifier: Apache-2.0
// What a plan costs before the first byte moves: choosing it, building its schedule, and finding
// it again in a communicator's cache.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/hierarchical.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/place.h"
#include "lib/plan/choose.h"
#include "lib/plans.h"

namespace echelon {
namespace {

constexpr int kRanksPerHost = 8;
constexpr double kBytes = 64 << 20;

// Hosts of 8 ranks with one NIC each.
Shape shape_of(int ranks) {
  Fabric fabric;
  for (int h = 0; h < std::max(1, ranks / kRanksPerHost); ++h) {
    Host host;
    host.name = host.id = fmt::format("host{}", h);
    host.ranks = kRanksPerHost;
    Nic nic;
    nic.name = "eth0";
    nic.bytes_per_second = {1.25e9, Source::kFile};
    host.nics.push_back(nic);
    fabric.hosts.push_back(host);
  }
  return make_shape(make_layout(fabric, spread_ranks(fabric, ranks)), true);
}

void layout_and_shape(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(shape_of(static_cast<int>(state.range(0))));
}

void choose_plan(benchmark::State& state) {
  const Shape shape = shape_of(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(choose(shape, ECH_ALLREDUCE, kBytes));
}

// The program of one rank, as a communicator builds it.
void build_schedule(benchmark::State& state) {
  const Shape shape = shape_of(static_cast<int>(state.range(0)));
  const Choice choice = choose(shape, ECH_ALLREDUCE, kBytes);
  const Composition parts = composition_of(shape, choice.best.recipe, ECH_ALLREDUCE, 0);
  state.SetLabel(to_text(choice.best.recipe));
  for (auto _ : state) benchmark::DoNotOptimize(compose(parts, 0));
}

// The first operation of a size class: choose, build, compile.
void plan_cache_miss(benchmark::State& state) {
  const Shape shape = shape_of(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    Plans plans(shape, 0, std::nullopt);
    benchmark::DoNotOptimize(plans.get({ECH_ALLREDUCE, 64 << 20, 0}));
  }
}

// Every later one, when sizes alternate.
void plan_cache_hit(benchmark::State& state) {
  Plans plans(shape_of(static_cast<int>(state.range(0))), 0, std::nullopt);
  std::size_t bytes = 1 << 20;
  for (auto _ : state) {
    benchmark::DoNotOptimize(plans.get({ECH_ALLREDUCE, bytes, 0}));
    bytes ^= 3 << 20;
  }
}

BENCHMARK(plan_cache_miss)->RangeMultiplier(8)->Range(8, 16384)->Unit(benchmark::kMicrosecond);
BENCHMARK(plan_cache_hit)->RangeMultiplier(8)->Range(8, 512);
BENCHMARK(layout_and_shape)->RangeMultiplier(8)->Range(8, 16384)->Unit(benchmark::kMicrosecond);
BENCHMARK(choose_plan)->RangeMultiplier(8)->Range(8, 16384)->Unit(benchmark::kMicrosecond);
BENCHMARK(build_schedule)->RangeMultiplier(8)->Range(8, 16384)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace echelon

BENCHMARK_MAIN();
