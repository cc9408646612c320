// SPDX-License-Identifier: Apache-2.0
// The kernels in standard C++: the meaning of the others, and what runs where they do not.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "lib/base/half.h"
#include "lib/reduce/kernels.h"

namespace echelon {
namespace {

// How a type lies in memory and what it is computed in. Signed integers add and multiply as
// unsigned ones, so that overflow wraps.
template <typename T>
struct Integer {
  using Stored = T;
  using Value = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};

template <typename T, typename Bits, Bits kNan>
struct Float {
  using Stored = T;
  using Value = T;
  static T load(T v) { return v; }
  static T store(T v) { return v == v ? v : std::bit_cast<T>(kNan); }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(std::uint16_t v) { return float16_to_float(v); }
  static std::uint16_t store(float v) { return float_to_float16(v); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(std::uint16_t v) { return bfloat16_to_float(v); }
  static std::uint16_t store(float v) { return float_to_bfloat16(v); }
};

using Float32 = Float<float, std::uint32_t, kFloatNan>;
using Float64 = Float<double, std::uint64_t, kDoubleNan>;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Prod {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};

// Equal zeros of different sign: the union of the sign bits is -0. Unordered: a NaN united with
// anything is a NaN.
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      const T ab = a < b ? a : b, ba = b < a ? b : a;
      return std::bit_cast<T>(std::bit_cast<Bits>(ab) | std::bit_cast<Bits>(ba));
    } else {
      return std::min(a, b);
    }
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return -Min::apply(-a, -b);
    else
      return std::max(a, b);
  }
};

template <typename Type>
typename Type::Value load(const std::byte* from, std::size_t i) {
  typename Type::Stored v;
  std::memcpy(&v, from + i * sizeof v, sizeof v);
  return Type::load(v);
}

template <typename Type>
void store(std::byte* to, std::size_t i, typename Type::Value value) {
  const typename Type::Stored v = Type::store(value);
  std::memcpy(to + i * sizeof v, &v, sizeof v);
}

template <typename Type, typename Op>
void reduce_plain(const ReduceTask& task) {
  constexpr std::size_t kBlock = 512;  // the accumulators stay in the first-level cache
  typename Type::Value sum[kBlock];
  for (std::size_t done = 0; done < task.count; done += kBlock) {
    const std::size_t n = std::min(kBlock, task.count - done);
    const std::size_t at = task.offset + done * sizeof(typename Type::Stored);
    for (std::size_t i = 0; i < n; ++i) sum[i] = load<Type>(task.sources[0] + at, i);
    for (const std::byte* source : task.sources.subspan(1))
      for (std::size_t i = 0; i < n; ++i) sum[i] = Op::apply(sum[i], load<Type>(source + at, i));
    for (std::size_t i = 0; i < n; ++i) store<Type>(task.out, done + i, sum[i]);
  }
}

template <typename Type>
void divide_plain(std::byte* data, std::size_t count, int divisor) {
  using Value = typename Type::Value;
  for (std::size_t i = 0; i < count; ++i) {
    const Value v = load<Type>(data, i);
    if constexpr (std::is_floating_point_v<Value>)
      store<Type>(data, i, v / static_cast<Value>(divisor));
    else if constexpr (sizeof(Value) <= 4)  // a quotient of 32-bit integers is exact enough
      store<Type>(data, i, static_cast<Value>(static_cast<double>(v) / divisor));
    else if constexpr (std::is_signed_v<Value>)
      store<Type>(data, i, v / divisor);
    else
      store<Type>(data, i, v / static_cast<unsigned>(divisor));
  }
}

template <typename Type>
void scale_plain(const ScaleTask& task) {
  const auto factor = static_cast<typename Type::Value>(task.factor);
  for (std::size_t i = 0; i < task.count; ++i)
    store<Type>(task.out, i, load<Type>(task.in, i) * factor);
}

template <typename Type, typename Wrapping = Type>
ReduceKernel choose(ech_op op) {
  switch (op) {
    case ECH_PROD:
      return reduce_plain<Wrapping, Prod>;
    case ECH_MIN:
      return reduce_plain<Type, Min>;
    case ECH_MAX:
      return reduce_plain<Type, Max>;
    default:
      return reduce_plain<Wrapping, Sum>;
  }
}

}  // namespace

ReduceKernel plain_reduce(ech_dtype dtype, ech_op op) {
  switch (dtype) {
    case ECH_INT8:
      return choose<Integer<std::int8_t>, Integer<std::uint8_t>>(op);
    case ECH_UINT8:
      return choose<Integer<std::uint8_t>>(op);
    case ECH_INT32:
      return choose<Integer<std::int32_t>, Integer<std::uint32_t>>(op);
    case ECH_UINT32:
      return choose<Integer<std::uint32_t>>(op);
    case ECH_INT64:
      return choose<Integer<std::int64_t>, Integer<std::uint64_t>>(op);
    case ECH_UINT64:
      return choose<Integer<std::uint64_t>>(op);
    case ECH_FLOAT16:
      return choose<Float16>(op);
    case ECH_BFLOAT16:
      return choose<Bfloat16>(op);
    case ECH_FLOAT32:
      return choose<Float32>(op);
    case ECH_FLOAT64:
      return choose<Float64>(op);
  }
  return nullptr;
}

DivideKernel plain_divide(ech_dtype dtype) {
  switch (dtype) {
    case ECH_INT8:
      return divide_plain<Integer<std::int8_t>>;
    case ECH_UINT8:
      return divide_plain<Integer<std::uint8_t>>;
    case ECH_INT32:
      return divide_plain<Integer<std::int32_t>>;
    case ECH_UINT32:
      return divide_plain<Integer<std::uint32_t>>;
    case ECH_INT64:
      return divide_plain<Integer<std::int64_t>>;
    case ECH_UINT64:
      return divide_plain<Integer<std::uint64_t>>;
    case ECH_FLOAT16:
      return divide_plain<Float16>;
    case ECH_BFLOAT16:
      return divide_plain<Bfloat16>;
    case ECH_FLOAT32:
      return divide_plain<Float32>;
    case ECH_FLOAT64:
      return divide_plain<Float64>;
  }
  return nullptr;
}

ScaleKernel plain_scale(ech_dtype dtype) {
  switch (dtype) {
    case ECH_FLOAT16:
      return scale_plain<Float16>;
    case ECH_BFLOAT16:
      return scale_plain<Bfloat16>;
    case ECH_FLOAT32:
      return scale_plain<Float32>;
    case ECH_FLOAT64:
      return scale_plain<Float64>;
    default:
      return nullptr;
  }
}

}  // namespace echelon
