// SPDX-License-Identifier: Apache-2.0
// Floating point kernels, one set per instruction set. 16-bit types are computed in float32.
#include "lib/reduce/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/simd_float.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

#include "lib/base/half.h"
#include "lib/reduce/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace echelon::HWY_NAMESPACE {

// Every NaN that is stored is the quiet positive one: payloads depend on operand order.
template <typename D, typename V>
HWY_INLINE V canonical(D d, V v) {
  const hn::RebindToUnsigned<D> du;
  constexpr auto kNan = sizeof(hn::TFromD<D>) == 8 ? kDoubleNan : kFloatNan;
  const auto nan = hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(kNan));
  return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, nan), v);
}

template <typename T>
struct Float {
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr hn::ScalableTag<T> d{};
  static constexpr std::size_t kBytes = hn::MaxLanes(d) * sizeof(T);
  static HWY_INLINE auto load(const std::byte* from) {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
  template <typename V>
  static HWY_INLINE void store(V v, std::byte* to) {
    hn::StoreU(canonical(d, v), d, reinterpret_cast<T*>(to));
  }
  static HWY_INLINE auto all(double value) { return hn::Set(d, static_cast<T>(value)); }
};

struct Float16 {
  static constexpr std::size_t kElementBytes = 2;
  static constexpr hn::ScalableTag<float> d{};
  static constexpr hn::Rebind<hwy::float16_t, decltype(d)> d16{};
  static constexpr std::size_t kBytes = hn::MaxLanes(d) * 2;
  static HWY_INLINE auto load(const std::byte* from) {
    return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  template <typename V>
  static HWY_INLINE void store(V v, std::byte* to) {
    hn::StoreU(hn::DemoteTo(d16, canonical(d, v)), d16, reinterpret_cast<hwy::float16_t*>(to));
  }
  static HWY_INLINE auto all(double value) { return hn::Set(d, static_cast<float>(value)); }
};

// Computed as two vectors, the even and the odd elements: shifts and masks, no shuffles. A template
// because the emulated targets cannot compile it, and need not.
template <typename F>
struct Bfloat16 {
  static constexpr std::size_t kElementBytes = 2;
  static constexpr hn::ScalableTag<F> d{};
  static constexpr hn::ScalableTag<std::uint32_t> d32{};
  static constexpr hn::ScalableTag<std::uint16_t> d16{};
  static constexpr std::size_t kBytes = hn::MaxLanes(d16) * 2;
  using V = Pair<hn::Vec<decltype(d)>>;
  static HWY_INLINE V load(const std::byte* from) {
    const auto bits =
        hn::BitCast(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
    const auto odd = hn::And(bits, hn::Set(d32, 0xffff0000));
    return {hn::BitCast(d, hn::ShiftLeft<16>(bits)), hn::BitCast(d, odd)};
  }
  // The upper halves, to nearest, ties to even; the lower halves are left over.
  static HWY_INLINE auto rounded(hn::Vec<decltype(d)> v) {
    const auto bits = hn::BitCast(d32, canonical(d, v));
    const auto lowest = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    return hn::Add(hn::Add(bits, hn::Set(d32, 0x7fff)), lowest);
  }
  static HWY_INLINE void store(V v, std::byte* to) {
    const auto even = hn::BitCast(d16, hn::ShiftRight<16>(rounded(v.even)));
    const auto odd = hn::BitCast(d16, rounded(v.odd));
    hn::StoreU(hn::OddEven(odd, even), d16, reinterpret_cast<std::uint16_t*>(to));
  }
  static HWY_INLINE V all(double value) {
    const auto v = hn::Set(d, static_cast<F>(value));
    return {v, v};
  }
};

struct Quotient {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Div(a, b);
  }
};

// out[i] = Op(in[i], by).
template <typename Type, typename Op>
void combine_simd(const ScaleTask& task, double by) {
  constexpr std::size_t kBytes = Type::kBytes;
  const auto operand = Type::all(by);
  const std::size_t bytes = task.count * Type::kElementBytes;
  std::size_t done = 0;
  for (; done + kBytes <= bytes; done += kBytes)
    Type::store(combine<Op>(Type::load(task.in + done), operand), task.out + done);
  alignas(64) std::byte rest[kBytes] = {};
  std::memcpy(rest, task.in + done, bytes - done);
  Type::store(combine<Op>(Type::load(rest), operand), rest);
  std::memcpy(task.out + done, rest, bytes - done);
}

template <typename Type>
void divide_simd(std::byte* data, std::size_t count, int divisor) {
  combine_simd<Type, Quotient>({data, data, count, 0}, divisor);
}

template <typename Type>
void scale_simd(const ScaleTask& task) {
  combine_simd<Type, Prod>(task, task.factor);
}

ReduceKernel choose_float(ech_dtype dtype, ech_op op) {
  if constexpr (!kEmulated) {
    switch (dtype) {
      case ECH_FLOAT16:
        return choose<Float16>(op);
      case ECH_BFLOAT16:
        return choose<Bfloat16<float>>(op);
      case ECH_FLOAT32:
        return choose<Float<float>>(op);
      case ECH_FLOAT64:
        return choose<Float<double>>(op);
      default:
        break;
    }
  }
  return plain_reduce(dtype, op);
}

DivideKernel choose_divide(ech_dtype dtype) {
  if constexpr (!kEmulated) {
    switch (dtype) {
      case ECH_FLOAT16:
        return divide_simd<Float16>;
      case ECH_BFLOAT16:
        return divide_simd<Bfloat16<float>>;
      case ECH_FLOAT32:
        return divide_simd<Float<float>>;
      case ECH_FLOAT64:
        return divide_simd<Float<double>>;
      default:
        break;
    }
  }
  return plain_divide(dtype);
}

ScaleKernel choose_scale(ech_dtype dtype) {
  if constexpr (!kEmulated) {
    switch (dtype) {
      case ECH_FLOAT16:
        return scale_simd<Float16>;
      case ECH_BFLOAT16:
        return scale_simd<Bfloat16<float>>;
      case ECH_FLOAT32:
        return scale_simd<Float<float>>;
      case ECH_FLOAT64:
        return scale_simd<Float<double>>;
      default:
        break;
    }
  }
  return plain_scale(dtype);
}

const char* target() {
  return HWY_TARGET == HWY_AVX3   ? "avx512"
         : HWY_TARGET == HWY_AVX2 ? "avx2"
         : HWY_TARGET == HWY_NEON ? "neon"
                                  : "plain";
}

// 64 bytes a step, to an aligned address; the unaligned ends by ordinary stores.
void stream(std::byte* out, const std::byte* in, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(out) % kLine);
  std::memcpy(out, in, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine)
    for (std::size_t at = done; at < done + kLine; at += sizeof(std::uint64_t) * hn::MaxLanes(d))
      hn::Stream(hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(in + at)), d,
                 reinterpret_cast<std::uint64_t*>(out + at));
  hwy::FlushStream();
  std::memcpy(out + done, in + done, bytes - done);
}

}  // namespace echelon::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace echelon {

HWY_EXPORT(choose_float);
HWY_EXPORT(choose_divide);
HWY_EXPORT(choose_scale);
HWY_EXPORT(target);
HWY_EXPORT(stream);

ReduceKernel float_reduce(ech_dtype dtype, ech_op op) {
  return HWY_DYNAMIC_DISPATCH(choose_float)(dtype, op);
}

DivideKernel float_divide(ech_dtype dtype) { return HWY_DYNAMIC_DISPATCH(choose_divide)(dtype); }

ScaleKernel float_scale(ech_dtype dtype) { return HWY_DYNAMIC_DISPATCH(choose_scale)(dtype); }

const char* simd_target() { return HWY_DYNAMIC_DISPATCH(target)(); }

void stream_copy(std::byte* out, const std::byte* in, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream)(out, in, bytes);
}

}  // namespace echelon
#endif
