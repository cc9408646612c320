// SPDX-License-Identifier: Apache-2.0
// What a call costs when there is nothing to exchange: a communicator of one rank, over the C ABI.
// Its schedules are empty, so this is the price of validation, the plan cache and the engine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "echelon/echelon.h"

namespace {

int allgather_of_one(const void* send, void* recv, size_t bytes, void*) {
  const char* const in = static_cast<const char*>(send);
  std::copy(in, in + bytes, static_cast<char*>(recv));
  return 0;
}

// Nullptr, and the benchmark fails, when it cannot be made.
ech_comm* comm_of_one(benchmark::State& state) {
  ech_comm_options options{};
  options.struct_size = sizeof options;
  options.allgather = allgather_of_one;
  options.size = 1;
  ech_comm* comm = nullptr;
  if (ech_comm_create(&comm, &options) != ECH_OK) state.SkipWithError(ech_last_error());
  return comm;
}

void empty_allreduce(benchmark::State& state) {
  ech_comm* const comm = comm_of_one(state);
  if (comm == nullptr) return;
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  std::vector<float> data(count, 1);
  for (auto _ : state)
    if (ech_allreduce(data.data(), data.data(), count, ECH_FLOAT32, ECH_SUM, comm) != ECH_OK)
      state.SkipWithError(ech_last_error());
  ech_comm_destroy(comm);
}

void empty_nonblocking_allreduce(benchmark::State& state) {
  ech_comm* const comm = comm_of_one(state);
  if (comm == nullptr) return;
  std::vector<float> data(static_cast<std::size_t>(state.range(0)) / sizeof(float), 1);
  for (auto _ : state) {
    ech_request* request = nullptr;
    ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM, comm, nullptr,
                   &request);
    if (ech_wait(&request) != ECH_OK) state.SkipWithError(ech_last_error());
  }
  ech_comm_destroy(comm);
}

void empty_barrier(benchmark::State& state) {
  ech_comm* const comm = comm_of_one(state);
  if (comm == nullptr) return;
  for (auto _ : state)
    if (ech_barrier(comm) != ECH_OK) state.SkipWithError(ech_last_error());
  ech_comm_destroy(comm);
}

BENCHMARK(empty_allreduce)->Arg(8)->Arg(1 << 20);
BENCHMARK(empty_nonblocking_allreduce)->Arg(8);
BENCHMARK(empty_barrier);

}  // namespace

BENCHMARK_MAIN();
