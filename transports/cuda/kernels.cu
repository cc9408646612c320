// SPDX-License-Identifier: Apache-2.0
// Reduction on a GPU, to the same bits as lib/reduce gives on the CPU (see reduce.h): many sources
// in one pass, in their order; 16-bit types accumulate in float32 and are rounded once; a NaN
// result is the quiet positive one. Sources may lie in pinned host memory.
//
// One kernel per type and operation, named echelon_reduce_<type>_<op>, echelon_divide_<type> and,
// for floats, echelon_scale_<type>.
// Signed sums and products are those of unsigned integers, which wrap.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "transports/cuda/kernel_args.h"

namespace echelon {
namespace {

// How a type lies in memory and what it is computed in.
template <typename T>
struct Integer {
  using Stored = T;
  using Value = T;
  static __device__ T load(T v) { return v; }
  static __device__ T store(T v) { return v; }
};

struct Float32 {
  using Stored = float;
  using Value = float;
  static __device__ float load(float v) { return v; }
  static __device__ float store(float v) { return v == v ? v : __uint_as_float(0x7fc00000u); }
};

struct Float64 {
  using Stored = double;
  using Value = double;
  static __device__ double load(double v) { return v; }
  static __device__ double store(double v) {
    return v == v ? v : __longlong_as_double(0x7ff8000000000000ll);
  }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static __device__ float load(std::uint16_t v) { return __half2float(__ushort_as_half(v)); }
  static __device__ std::uint16_t store(float v) {
    return v == v ? __half_as_ushort(__float2half_rn(v)) : std::uint16_t{0x7e00};
  }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static __device__ float load(std::uint16_t v) { return __uint_as_float(std::uint32_t{v} << 16); }
  static __device__ std::uint16_t store(float v) {
    return v == v ? __bfloat16_as_ushort(__float2bfloat16_rn(v)) : std::uint16_t{0x7fc0};
  }
};

__device__ float unite(float a, float b) {
  return __uint_as_float(__float_as_uint(a) | __float_as_uint(b));
}
__device__ double unite(double a, double b) {
  return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
}

struct Sum {
  template <typename T>
  static __device__ T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Prod {
  template <typename T>
  static __device__ T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};

template <typename T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

// Of equal zeros -0 is the smaller: the union of the sign bits. A NaN united with anything is one.
struct Min {
  template <typename T>
  static __device__ T apply(T a, T b) {
    if constexpr (kIsFloat<T>)
      return unite(a < b ? a : b, b < a ? b : a);
    else
      return b < a ? b : a;
  }
};

struct Max {
  template <typename T>
  static __device__ T apply(T a, T b) {
    if constexpr (kIsFloat<T>)
      return -Min::apply(-a, -b);
    else
      return a < b ? b : a;
  }
};

// N elements that are loaded and stored at once.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

template <typename Type, typename Op, int N>
__device__ void reduce_packs(const ReduceArgs& args, std::size_t begin, std::size_t packs) {
  using Stored = typename Type::Stored;
  using Packed = Pack<Stored, N>;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < packs; i += stride) {
    const std::size_t at = begin * sizeof(Stored) + i * sizeof(Packed);
    typename Type::Value value[N];
    Packed pack = *reinterpret_cast<const Packed*>(args.sources[0] + at);
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = Type::load(pack.at[k]);
#pragma unroll 4
    for (int s = 1; s < args.source_count; ++s) {
      pack = *reinterpret_cast<const Packed*>(args.sources[s] + at);
#pragma unroll
      for (int k = 0; k < N; ++k) value[k] = Op::apply(value[k], Type::load(pack.at[k]));
    }
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = Type::store(value[k]);
    *reinterpret_cast<Packed*>(args.out + at) = pack;
  }
}

__device__ bool aligned(const ReduceArgs& args, std::size_t to) {
  std::size_t bits = reinterpret_cast<std::size_t>(args.out);
  for (int s = 0; s < args.source_count; ++s)
    bits |= reinterpret_cast<std::size_t>(args.sources[s]);
  return bits % to == 0;
}

constexpr int kPackBytes = 16;

template <typename Type, typename Op>
__device__ void reduce(const ReduceArgs& args) {
  constexpr int kElements = kPackBytes / sizeof(typename Type::Stored);
  const std::size_t packs = aligned(args, kPackBytes) ? args.count / kElements : 0;
  const std::size_t begin = packs * kElements;
  reduce_packs<Type, Op, kElements>(args, 0, packs);
  reduce_packs<Type, Op, 1>(args, begin, args.count - begin);
}

template <typename Type>
__device__ void divide(const DivideArgs& args) {
  using Stored = typename Type::Stored;
  using Value = typename Type::Value;
  Stored* data = reinterpret_cast<Stored*>(args.data);
  const Value divisor = static_cast<Value>(args.divisor);
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.count;
       i += stride)
    data[i] = Type::store(Type::load(data[i]) / divisor);
}

template <typename Type>
__device__ void scale(const ScaleArgs& args) {
  using Stored = typename Type::Stored;
  using Value = typename Type::Value;
  const Stored* in = reinterpret_cast<const Stored*>(args.in);
  Stored* out = reinterpret_cast<Stored*>(args.out);
  const Value factor = static_cast<Value>(args.factor);
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.count;
       i += stride)
    out[i] = Type::store(Type::load(in[i]) * factor);
}

// Narrow integers divide as 32-bit ones: the divisor may be larger than any of them.
template <typename T>
__device__ void divide_narrow(const DivideArgs& args) {
  T* data = reinterpret_cast<T*>(args.data);
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.count;
       i += stride)
    data[i] = static_cast<T>(static_cast<int>(data[i]) / args.divisor);
}

}  // namespace
}  // namespace echelon

using namespace echelon;

#define ECHELON_REDUCE(type, op, Type, Op)                                    \
  extern "C" __global__ void __launch_bounds__(kThreadsPerBlock)              \
      echelon_reduce_##type##_##op(const __grid_constant__ ReduceArgs args) { \
    reduce<Type, Op>(args);                                                   \
  }
#define ECHELON_ARITHMETIC(type, Type) \
  ECHELON_REDUCE(type, sum, Type, Sum) \
  ECHELON_REDUCE(type, prod, Type, Prod)
#define ECHELON_ORDER(type, Type)      \
  ECHELON_REDUCE(type, min, Type, Min) \
  ECHELON_REDUCE(type, max, Type, Max)
#define ECHELON_DIVIDE(type, call)                                     \
  extern "C" __global__ void __launch_bounds__(kThreadsPerBlock)       \
      echelon_divide_##type(const __grid_constant__ DivideArgs args) { \
    call(args);                                                        \
  }
#define ECHELON_SCALE(type, Type)                                    \
  extern "C" __global__ void __launch_bounds__(kThreadsPerBlock)     \
      echelon_scale_##type(const __grid_constant__ ScaleArgs args) { \
    scale<Type>(args);                                               \
  }

ECHELON_ARITHMETIC(u8, Integer<std::uint8_t>)
ECHELON_ARITHMETIC(u32, Integer<std::uint32_t>)
ECHELON_ARITHMETIC(u64, Integer<std::uint64_t>)
ECHELON_ARITHMETIC(f16, Float16)
ECHELON_ARITHMETIC(bf16, Bfloat16)
ECHELON_ARITHMETIC(f32, Float32)
ECHELON_ARITHMETIC(f64, Float64)
ECHELON_ORDER(i8, Integer<std::int8_t>)
ECHELON_ORDER(u8, Integer<std::uint8_t>)
ECHELON_ORDER(i32, Integer<std::int32_t>)
ECHELON_ORDER(u32, Integer<std::uint32_t>)
ECHELON_ORDER(i64, Integer<std::int64_t>)
ECHELON_ORDER(u64, Integer<std::uint64_t>)
ECHELON_ORDER(f16, Float16)
ECHELON_ORDER(bf16, Bfloat16)
ECHELON_ORDER(f32, Float32)
ECHELON_ORDER(f64, Float64)
ECHELON_DIVIDE(i8, divide_narrow<std::int8_t>)
ECHELON_DIVIDE(u8, divide_narrow<std::uint8_t>)
ECHELON_DIVIDE(i32, divide<Integer<std::int32_t>>)
ECHELON_DIVIDE(u32, divide<Integer<std::uint32_t>>)
ECHELON_DIVIDE(i64, divide<Integer<std::int64_t>>)
ECHELON_DIVIDE(u64, divide<Integer<std::uint64_t>>)
ECHELON_DIVIDE(f16, divide<Float16>)
ECHELON_DIVIDE(bf16, divide<Bfloat16>)
ECHELON_DIVIDE(f32, divide<Float32>)
ECHELON_DIVIDE(f64, divide<Float64>)
ECHELON_SCALE(f16, Float16)
ECHELON_SCALE(bf16, Bfloat16)
ECHELON_SCALE(f32, Float32)
ECHELON_SCALE(f64, Float64)
