// SPDX-License-Identifier: Apache-2.0
// Stands in for lib/reduce until it is there; weak, so that the real one wins.
#include <bit>
#include <cmath>
#include <cstring>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"

namespace echelon {
namespace {

template <typename T>
T apply(ech_op op, T a, T b) {
  switch (op) {
    case ECH_PROD:
      return static_cast<T>(a * b);
    case ECH_MIN:
      return a < b ? a : b;
    case ECH_MAX:
      return a > b ? a : b;
    default:
      return static_cast<T>(a + b);
  }
}

template <typename T>
void run(ech_op op, std::span<const std::byte* const> sources, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum, next;
    std::memcpy(&sum, sources[0] + i * sizeof(T), sizeof(T));
    for (std::size_t s = 1; s < sources.size(); ++s) {
      std::memcpy(&next, sources[s] + i * sizeof(T), sizeof(T));
      sum = apply<T>(op, sum, next);
    }
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}

float from_half(std::uint16_t h) {
  const int exponent = (h >> 10 & 31) - 15;
  return exponent == -15 ? 0.0f : std::ldexp(1.0f + (h & 1023) / 1024.0f, exponent);
}

std::uint16_t to_half(float f) {
  if (f == 0) return 0;
  int exponent;
  const float mantissa = std::frexp(f, &exponent);
  return static_cast<std::uint16_t>((exponent + 14) << 10 | (int(mantissa * 2048) & 1023));
}

void run_short(bool bf, ech_op op, std::span<const std::byte* const> sources, std::byte* out,
               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::size_t s = 0; s < sources.size(); ++s) {
      std::uint16_t h;
      std::memcpy(&h, sources[s] + 2 * i, 2);
      const float v = bf ? std::bit_cast<float>(std::uint32_t(h) << 16) : from_half(h);
      sum = s == 0 ? v : apply<float>(op, sum, v);
    }
    const auto h = bf ? std::uint16_t(std::bit_cast<std::uint32_t>(sum) >> 16) : to_half(sum);
    std::memcpy(out + 2 * i, &h, 2);
  }
}

}  // namespace

[[gnu::weak]] void reduce(ech_dtype dtype, ech_op op, std::span<const std::byte* const> sources,
                          std::byte* out, std::size_t count) {
  switch (dtype) {
    case ECH_FLOAT16:
    case ECH_BFLOAT16:
      return run_short(dtype == ECH_BFLOAT16, op, sources, out, count);
    case ECH_INT8:
      return run<std::int8_t>(op, sources, out, count);
    case ECH_UINT8:
      return run<std::uint8_t>(op, sources, out, count);
    case ECH_INT32:
      return run<std::int32_t>(op, sources, out, count);
    case ECH_UINT32:
      return run<std::uint32_t>(op, sources, out, count);
    case ECH_INT64:
      return run<std::int64_t>(op, sources, out, count);
    case ECH_UINT64:
      return run<std::uint64_t>(op, sources, out, count);
    case ECH_FLOAT32:
      return run<float>(op, sources, out, count);
    default:
      return run<double>(op, sources, out, count);
  }
}

}  // namespace echelon
