// SPDX-License-Identifier: Apache-2.0
// The reduction loop and its operators, compiled once per instruction set (Highway's guard, not
// #pragma once). A Type says how an element lies in memory and which vectors it is computed in:
//   kElementBytes, kBytes                  of memory, for an element and for a vector
//   load(address), store(vector, address)
#if defined(ECHELON_REDUCE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECHELON_REDUCE_SIMD_INL_H_
#undef ECHELON_REDUCE_SIMD_INL_H_
#else
#define ECHELON_REDUCE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "lib/reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace echelon::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway's emulation and its "scalar" target are not used: plain.cc is faster.
inline constexpr bool kEmulated = HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR;

struct Sum {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};

// No instruction multiplies bytes: the even and the odd ones as 16-bit numbers.
template <typename V>
HWY_INLINE V multiply_bytes(V a, V b) {
  const hn::DFromV<V> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto a16 = hn::BitCast(wide, a), b16 = hn::BitCast(wide, b);
  const auto even = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0xff));
  const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
  return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
}

struct Prod {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (sizeof(hn::TFromV<V>) == 1)
      return multiply_bytes(a, b);
    else
      return hn::Mul(a, b);
  }
};

// a < b ? a : b. On x86 that is what the instruction does; others treat NaN differently.
template <typename V>
HWY_INLINE V lesser(V a, V b) {
  if constexpr (HWY_ARCH_X86)
    return hn::Min(a, b);
  else
    return hn::IfThenElse(hn::Lt(a, b), a, b);
}

// For floating point see Min in plain.cc: the union makes -0 and NaN win, in either order.
struct Min {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>())
      return hn::Or(lesser(a, b), lesser(b, a));
    else
      return hn::Min(a, b);
  }
};

struct Max {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>())
      return hn::Neg(Min::apply(hn::Neg(a), hn::Neg(b)));
    else
      return hn::Max(a, b);
  }
};

// Two vectors that are loaded and stored as one. Its constructors are written out: those that GCC
// would make may not use the instruction set on ARM.
template <typename V>
struct Pair {
  HWY_INLINE Pair() {}
  HWY_INLINE Pair(V first, V second) : even(first), odd(second) {}
  V even, odd;
};

template <typename Op, typename V>
HWY_INLINE V combine(V a, V b) {
  return Op::apply(a, b);
}

template <typename Op, typename V>
HWY_INLINE Pair<V> combine(Pair<V> a, Pair<V> b) {
  return {Op::apply(a.even, b.even), Op::apply(a.odd, b.odd)};
}

// The result of kSources sources for one vector, in the order of the sources.
template <typename Type, typename Op, std::size_t kSources>
HWY_INLINE auto fold(const std::byte* const* sources, std::size_t at) {
  auto v = Type::load(sources[0] + at);
  for (std::size_t j = 1; j < kSources; ++j) v = combine<Op>(v, Type::load(sources[j] + at));
  return v;
}

// Two to four sources: everything stays in registers. Returns the bytes done, whole vectors.
template <typename Type, typename Op, std::size_t kSources>
std::size_t reduce_few(const ReduceTask& task) {
  constexpr std::size_t kBytes = Type::kBytes, kUnroll = 4;
  const std::byte* from[kSources];
  for (std::size_t j = 0; j < kSources; ++j) from[j] = task.sources[j] + task.offset;
  const std::size_t bytes = task.count * Type::kElementBytes;
  std::byte* const out = task.out;
  std::size_t at = 0;
  for (; at + kUnroll * kBytes <= bytes; at += kUnroll * kBytes)
    for (std::size_t i = at; i < at + kUnroll * kBytes; i += kBytes)
      Type::store(fold<Type, Op, kSources>(from, i), out + i);
  for (; at + kBytes <= bytes; at += kBytes)
    Type::store(fold<Type, Op, kSources>(from, at), out + at);
  return at;
}

// Adds sources to accumulators that wait in the first-level cache.
template <typename Type, typename Op, std::size_t kSources, typename V>
HWY_INLINE void extend(V* sums, std::size_t vectors, const std::byte* const* sources,
                       std::size_t at) {
  const std::byte* from[kSources];
  for (std::size_t j = 0; j < kSources; ++j) from[j] = sources[j] + at;
  for (std::size_t i = 0; i < vectors; ++i)
    for (std::size_t j = 0; j < kSources; ++j)
      sums[i] = combine<Op>(sums[i], Type::load(from[j] + i * Type::kBytes));
}

// Any number of sources, four at a time: more streams at once exceed what prefetchers follow.
template <typename Type, typename Op>
std::size_t reduce_many(const ReduceTask& task) {
  constexpr std::size_t kBytes = Type::kBytes, kChunk = 64, kGroup = 4;
  using V = decltype(Type::load(nullptr));
  const std::byte* const* sources = task.sources.data();
  const std::size_t k = task.sources.size(), all = task.count * Type::kElementBytes / kBytes;
  V sums[kChunk];
  for (std::size_t done = 0; done < all; done += kChunk) {
    const std::size_t vectors = HWY_MIN(kChunk, all - done);
    const std::size_t at = task.offset + done * kBytes;
    for (std::size_t i = 0; i < vectors; ++i) sums[i] = Type::load(sources[0] + at + i * kBytes);
    std::size_t j = 1;
    for (; j + kGroup <= k; j += kGroup) extend<Type, Op, kGroup>(sums, vectors, sources + j, at);
    for (; j < k; ++j) extend<Type, Op, 1>(sums, vectors, sources + j, at);
    std::byte* out = task.out + done * kBytes;
    for (std::size_t i = 0; i < vectors; ++i) Type::store(sums[i], out + i * kBytes);
  }
  return all * kBytes;
}

// What is left, less than a vector: through a buffer, with the same instructions.
template <typename Type, typename Op>
void reduce_rest(const ReduceTask& task, std::size_t done) {
  const std::size_t bytes = task.count * Type::kElementBytes - done;
  alignas(64) std::byte buffer[Type::kBytes] = {};
  std::memcpy(buffer, task.sources[0] + task.offset + done, bytes);
  auto v = Type::load(buffer);
  for (const std::byte* source : task.sources.subspan(1)) {
    std::memcpy(buffer, source + task.offset + done, bytes);
    v = combine<Op>(v, Type::load(buffer));
  }
  Type::store(v, buffer);
  std::memcpy(task.out + done, buffer, bytes);
}

template <typename Type, typename Op>
void reduce_simd(const ReduceTask& task) {
  std::size_t done = 0;
  switch (task.sources.size()) {
    case 2:
      done = reduce_few<Type, Op, 2>(task);
      break;
    case 3:
      done = reduce_few<Type, Op, 3>(task);
      break;
    case 4:
      done = reduce_few<Type, Op, 4>(task);
      break;
    default:
      done = reduce_many<Type, Op>(task);
      break;
  }
  if (done < task.count * Type::kElementBytes) reduce_rest<Type, Op>(task, done);
}

// Sums and products of signed integers are those of unsigned ones.
template <typename Type, typename Wrapping = Type>
ReduceKernel choose(ech_op op) {
  switch (op) {
    case ECH_PROD:
      return reduce_simd<Wrapping, Prod>;
    case ECH_MIN:
      return reduce_simd<Type, Min>;
    case ECH_MAX:
      return reduce_simd<Type, Max>;
    default:
      return reduce_simd<Wrapping, Sum>;
  }
}

}  // namespace echelon::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
