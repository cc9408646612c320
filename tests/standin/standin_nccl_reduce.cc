// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_nccl_reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/base/half.h"
#include "tests/standin/standin_faults.h"

namespace echelon::standin {
namespace {

// An element in memory, and the number that is computed with. Whole numbers wrap around.
template <typename T>
struct Same {
  using Stored = T;
  using Number = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};
struct Half {
  using Stored = std::uint16_t;
  using Number = float;
  static float load(std::uint16_t v) { return float16_to_float(v); }
  static std::uint16_t store(float v) { return float_to_float16(v); }
};
struct Bfloat {
  using Stored = std::uint16_t;
  using Number = float;
  static float load(std::uint16_t v) { return bfloat16_to_float(v); }
  static std::uint16_t store(float v) { return float_to_bfloat16(v); }
};

template <typename T>
T wrapped(T a, T b, bool product) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<T>(product ? x * y : x + y);
  } else {
    return product ? a * b : a + b;
  }
}

template <typename T>
T combine(NcclOp op, T a, T b) {
  if (op == kNcclMin) return std::min(a, b);
  if (op == kNcclMax) return std::max(a, b);
  return wrapped(a, b, op == kNcclProd);
}

template <typename Format>
void reduce_as(const std::vector<Buffer>& inputs, std::size_t count, NcclOp op, Buffer& out) {
  using Stored = typename Format::Stored;
  using Number = typename Format::Number;
  const auto element = [&](std::size_t rank, std::size_t i) {
    Stored stored;
    std::memcpy(&stored, inputs[rank].data() + i * sizeof stored, sizeof stored);
    return Format::load(stored);
  };
  for (std::size_t i = 0; i < count; ++i) {
    Number sum = element(0, i);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank)
      sum = combine(op, sum, element(rank, i));
    if (op == kNcclAvg) sum = static_cast<Number>(sum / static_cast<Number>(inputs.size()));
    const Stored stored = Format::store(sum);
    std::memcpy(out.data() + i * sizeof stored, &stored, sizeof stored);
  }
}

}  // namespace

bool is_valid(NcclType type) { return type >= kNcclInt8 && type <= kNcclBfloat16; }

bool is_valid(NcclOp op) { return op >= kNcclSum && op <= kNcclAvg; }

std::size_t size_of(NcclType type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

Buffer reduce(const std::vector<Buffer>& inputs, std::size_t count, NcclType type, NcclOp op) {
  Buffer out(count * size_of(type));
  switch (type) {
    case kNcclInt8:
      reduce_as<Same<std::int8_t>>(inputs, count, op, out);
      break;
    case kNcclUint8:
      reduce_as<Same<std::uint8_t>>(inputs, count, op, out);
      break;
    case kNcclInt32:
      reduce_as<Same<std::int32_t>>(inputs, count, op, out);
      break;
    case kNcclUint32:
      reduce_as<Same<std::uint32_t>>(inputs, count, op, out);
      break;
    case kNcclInt64:
      reduce_as<Same<std::int64_t>>(inputs, count, op, out);
      break;
    case kNcclUint64:
      reduce_as<Same<std::uint64_t>>(inputs, count, op, out);
      break;
    case kNcclFloat16:
      reduce_as<Half>(inputs, count, op, out);
      break;
    case kNcclFloat32:
      reduce_as<Same<float>>(inputs, count, op, out);
      break;
    case kNcclFloat64:
      reduce_as<Same<double>>(inputs, count, op, out);
      break;
    case kNcclBfloat16:
      reduce_as<Bfloat>(inputs, count, op, out);
      break;
  }
  return out;
}

}  // namespace echelon::standin
