// SPDX-License-Identifier: Apache-2.0
// What the engine takes for a step of a program: one rank's part of an allreduce by ring, an
// element per block, on a transport that takes no time. Each step sends a message and receives one,
// and half of them add what has come. Nothing is sent, so the sums are of whatever was there.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "algorithms/algorithm.h"
#include "lib/engine/engine.h"

namespace echelon {
namespace {

// Every message is done when it is posted.
class InstantTransport final : public Transport {
 public:
  void send(int peer, Tag, std::span<const std::byte>, Completion& completion) override {
    completion = {true, ECH_OK, peer};
  }
  void receive(int peer, Tag, std::span<std::byte>, Completion& completion) override {
    completion = {true, ECH_OK, peer};
  }
  bool progress() override { return false; }
  void abort() override {}
  Counters counters() const override { return {}; }

 private:
  int fd() const override { return -1; }
  bool arm() override { return true; }
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}
};

// `per_step`: seconds, the begin and the end of the operation divided among its steps.
void ring(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  Schedule schedule(ranks, 0);
  const int steps = add_collective(schedule, 0, Algorithm::kRing, GroupAction::kAllreduce,
                                   Group::range(ranks), even_shares(schedule.whole(), ranks));
  Task task;
  task.goal = {ECH_ALLREDUCE, 0, ranks, 0};
  const Program program = compile(schedule, task.goal, false);
  std::vector<float> input(ranks), output(ranks);
  task.program = &program;
  task.dtype = ECH_FLOAT32;
  task.input = reinterpret_cast<const std::byte*>(input.data());
  task.output = reinterpret_cast<std::byte*>(output.data());
  task.count = task.segment = input.size();
  task.bytes = input.size() * sizeof(float);
  task.timeout = std::chrono::seconds(20);
  EngineParts parts;
  parts.transport = std::make_unique<InstantTransport>();
  Engine engine(std::move(parts));
  for (auto _ : state) engine.run(task);
  state.counters["per_step"] = benchmark::Counter(
      steps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(ring)->RangeMultiplier(8)->Range(2, 1024);

}  // namespace
}  // namespace echelon

BENCHMARK_MAIN();
