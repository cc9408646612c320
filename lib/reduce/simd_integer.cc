// SPDX-License-Identifier: Apache-2.0
// Integer kernels, one set per instruction set.
#include "lib/reduce/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/simd_integer.cc"
#include <hwy/foreach_target.h>
//
#include "lib/reduce/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace echelon::HWY_NAMESPACE {

template <typename T>
struct Integer {
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr hn::ScalableTag<T> d{};
  static constexpr std::size_t kBytes = hn::MaxLanes(d) * sizeof(T);
  static HWY_INLINE auto load(const std::byte* from) {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
  template <typename V>
  static HWY_INLINE void store(V v, std::byte* to) {
    hn::StoreU(v, d, reinterpret_cast<T*>(to));
  }
};

ReduceKernel choose_integer(ech_dtype dtype, ech_op op) {
  if constexpr (!kEmulated) {
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
      default:
        break;
    }
  }
  return plain_reduce(dtype, op);
}

}  // namespace echelon::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace echelon {

HWY_EXPORT(choose_integer);

ReduceKernel integer_reduce(ech_dtype dtype, ech_op op) {
  return HWY_DYNAMIC_DISPATCH(choose_integer)(dtype, op);
}

}  // namespace echelon
#endif
