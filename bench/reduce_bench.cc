// SPDX-License-Identifier: Apache-2.0
// Reduction kernels against a plain copy. "bytes_per_second" counts what moves to and from
// memory once: every source read, the result written.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"

namespace echelon {
namespace {

constexpr std::int64_t kSmallest = 4 << 10, kLargest = 64 << 20;

struct FreeAligned {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, FreeAligned>;

Buffer make_buffer(std::size_t bytes) {
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
  std::memset(buffer.get(), 0x3f, bytes);  // near one in every floating point type
  return buffer;
}

void count_traffic(benchmark::State& state, std::size_t streams) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<std::int64_t>(streams));
}

void bench_memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer in = make_buffer(bytes), out = make_buffer(bytes);
  for (auto _ : state) {
    std::memcpy(out.get(), in.get(), bytes);
    benchmark::ClobberMemory();
  }
  count_traffic(state, 2);
}

void bench_copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer in = make_buffer(bytes), out = make_buffer(bytes);
  for (auto _ : state) {
    echelon::copy(out.get(), in.get(), bytes);
    benchmark::ClobberMemory();
  }
  count_traffic(state, 2);
}

void bench_reduce(benchmark::State& state, ech_dtype dtype, ech_op op, std::size_t sources) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<Buffer> buffers;
  std::vector<const std::byte*> in;
  for (std::size_t i = 0; i < sources; ++i) {
    buffers.push_back(make_buffer(bytes));
    in.push_back(buffers.back().get());
  }
  const Buffer out = make_buffer(bytes);
  for (auto _ : state) {
    echelon::reduce(dtype, op, in, out.get(), bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  count_traffic(state, sources + 1);
}

template <typename... Args>
void add(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)
      ->RangeMultiplier(16)
      ->Range(kSmallest, kLargest);
}

void register_all() {
  add("memcpy", bench_memcpy);
  add("copy", bench_copy);
  for (const std::size_t sources : {std::size_t{2}, std::size_t{4}})
    for (const ech_dtype dtype : kAllTypes)
      add(fmt::format("reduce/{}/sum/{}", name(dtype), sources), bench_reduce, dtype, ECH_SUM,
          sources);
  for (const std::size_t sources : {std::size_t{16}, std::size_t{64}})
    add(fmt::format("reduce/f32/sum/{}", sources), bench_reduce, ECH_FLOAT32, ECH_SUM, sources);
  for (const ech_op op : {ECH_PROD, ECH_MIN, ECH_MAX})
    add(fmt::format("reduce/f32/{}/2", name(op)), bench_reduce, ECH_FLOAT32, op, std::size_t{2});
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  echelon::register_all();
  benchmark::AddCustomContext("target", echelon::kernel_target());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
