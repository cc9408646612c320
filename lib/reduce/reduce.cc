// SPDX-License-Identifier: Apache-2.0
// Chooses kernels, and when results bypass the cache.
#include "lib/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "lib/base/dtype.h"
#include "lib/reduce/kernels.h"

namespace echelon {
namespace {

// From here on results bypass the cache: a copy of 64 MiB takes half the time, a sum of two
// buffers 0.85 of it; at 16 MiB there is little to gain, at 1 MiB it costs a factor of two (AMD
// Zen 3, 32 MiB of third-level cache; bench/reduce_bench.cc).
constexpr std::size_t kStreamBytes = 8 << 20;

bool is_integer(ech_dtype dtype) { return dtype < ECH_FLOAT16; }

// Reduces into a buffer in the first-level cache and streams that out.
void reduce_streaming(ReduceKernel kernel, ReduceTask task, std::size_t element) {
  alignas(64) std::array<std::byte, 4096> buffer;
  std::byte* out = task.out;
  const std::size_t end = task.count * element;
  for (std::size_t done = 0; done < end; done += buffer.size()) {
    const std::size_t bytes = std::min(buffer.size(), end - done);
    kernel({task.sources, task.offset + done, buffer.data(), bytes / element});
    stream_copy(out + done, buffer.data(), bytes);
  }
}

}  // namespace

void reduce(ech_dtype dtype, ech_op op, std::span<const std::byte* const> sources, std::byte* out,
            std::size_t count) {
  assert(!sources.empty());
  if (count == 0) return;
  const std::size_t bytes = count * size_of(dtype);
  if (sources.size() == 1) return copy(out, sources[0], bytes);
  const ReduceKernel kernel =
      is_integer(dtype) ? integer_reduce(dtype, op) : float_reduce(dtype, op);
  const ReduceTask task{sources, 0, out, count};
  if (bytes >= kStreamBytes && std::find(sources.begin(), sources.end(), out) == sources.end())
    reduce_streaming(kernel, task, size_of(dtype));
  else
    kernel(task);
}

void reduce(ech_dtype dtype, ech_op op, const std::byte* a, const std::byte* b, std::byte* out,
            std::size_t count) {
  reduce(dtype, op, std::array{a, b}, out, count);
}

void divide(ech_dtype dtype, std::byte* data, std::size_t count, int divisor) {
  assert(divisor > 0);
  if (count == 0) return;
  (is_integer(dtype) ? plain_divide(dtype) : float_divide(dtype))(data, count, divisor);
}

void scale(ech_dtype dtype, std::byte* out, const std::byte* in, std::size_t count, double factor) {
  assert(!is_integer(dtype));
  if (count > 0) float_scale(dtype)({out, in, count, factor});
}

void copy(std::byte* out, const std::byte* in, std::size_t bytes) {
  if (out == in || bytes == 0) return;
  if (bytes >= kStreamBytes)
    stream_copy(out, in, bytes);
  else
    std::memcpy(out, in, bytes);
}

const char* kernel_target() { return simd_target(); }

}  // namespace echelon
