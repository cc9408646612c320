// SPDX-License-Identifier: Apache-2.0
// The 16-bit conversions, over every 16-bit value and around every rounding boundary.
#include "lib/base/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace echelon {
namespace {

struct Format {
  int fraction_bits;
  int least_exponent;  // of normal numbers
  float (*decode)(std::uint16_t);
  std::uint16_t (*encode)(float);
  std::uint16_t infinity;
};

constexpr Format kFormats[] = {
    {10, -14, float16_to_float, float_to_float16, 0x7c00},
    {7, -126, bfloat16_to_float, float_to_bfloat16, 0x7f80},
};

// By the definition of the format, not by its bit tricks.
double value_of(const Format& f, std::uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> f.fraction_bits;
  const int fraction = bits & ((1 << f.fraction_bits) - 1);
  const int scale = std::max(exponent, 1) - 1 + f.least_exponent - f.fraction_bits;
  const double magnitude = std::ldexp(fraction + (exponent ? 1 << f.fraction_bits : 0), scale);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Half, EveryFiniteValueDecodesAndComesBack) {
  for (const Format& f : kFormats)
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto b = static_cast<std::uint16_t>(bits);
      if ((b & 0x7fff) >= f.infinity) continue;
      ASSERT_EQ(static_cast<double>(f.decode(b)), value_of(f, b)) << bits;
      ASSERT_EQ(f.encode(f.decode(b)), b);
    }
}

TEST(Half, InfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Format& f : kFormats) {
    EXPECT_EQ(f.decode(f.infinity), infinity);
    EXPECT_EQ(f.encode(-infinity), f.infinity | 0x8000);
    const int quiet = f.infinity | 1 << (f.fraction_bits - 1);
    for (unsigned bits = f.infinity + 1; bits < 0x8000; ++bits) {
      ASSERT_TRUE(std::isnan(f.decode(static_cast<std::uint16_t>(bits))));
      ASSERT_EQ(f.encode(f.decode(static_cast<std::uint16_t>(bits | 0x8000))), quiet);
    }
    EXPECT_EQ(f.encode(std::bit_cast<float>(0xffffffffu)), quiet);
    EXPECT_EQ(f.encode(std::bit_cast<float>(0x7f800001u)), quiet);
  }
}

// Half way between neighbours goes to the even one; the next float beyond goes to the nearer.
TEST(Half, RoundsToNearestTiesToEven) {
  for (const Format& f : kFormats)
    for (unsigned bits = 0; bits + 1 < f.infinity; ++bits) {
      const auto low = static_cast<std::uint16_t>(bits),
                 high = static_cast<std::uint16_t>(bits + 1);
      const auto tie = static_cast<float>((value_of(f, low) + value_of(f, high)) / 2);
      ASSERT_EQ(f.encode(tie), bits % 2 == 0 ? low : high) << bits;
      ASSERT_EQ(f.encode(std::nextafterf(tie, 0)), low) << bits;
      ASSERT_EQ(f.encode(std::nextafterf(tie, std::numeric_limits<float>::max())), high) << bits;
      ASSERT_EQ(f.encode(-tie), f.encode(tie) | 0x8000) << bits;
    }
}

TEST(Half, OverflowRoundsToInfinityFromHalfWay) {
  EXPECT_EQ(float_to_float16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace echelon
