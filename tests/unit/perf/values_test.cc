// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

std::int64_t integer_limit(ech_dtype dtype) {
  switch (dtype) {
    case ECH_INT8:
      return 127;
    case ECH_UINT8:
      return 255;
    case ECH_FLOAT16:
      return 2048;
    case ECH_BFLOAT16:
      return 256;
    default:
      return 1 << 24;
  }
}

// The largest magnitude of any partial result, in any order and grouping.
std::int64_t worst_partial(const Values& values, ech_op op, int ranks, std::size_t i) {
  std::int64_t up = op == ECH_PROD ? 1 : 0, down = 0, single = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t v = values.input(r, i);
    single = std::max(single, std::abs(v));
    if (op == ECH_PROD) {
      up *= v;
    } else {
      (v > 0 ? up : down) += v;
    }
  }
  if (op == ECH_MIN || op == ECH_MAX) return single;
  return std::max({up, -down, single});
}

TEST(Values, EveryPartialResultIsExactInEveryType) {
  for (int ranks : {1, 2, 3, 8, 41, 97, 300})
    for (ech_dtype dtype : parse_dtypes("all"))
      for (ech_op op : parse_ops("all")) {
        const Values values(dtype, op, ranks);
        for (std::size_t i = 0; i < kPeriod; i += 13)
          ASSERT_LE(worst_partial(values, op, ranks, i), integer_limit(dtype))
              << name(dtype) << " " << name(op) << " ranks " << ranks << " element " << i;
      }
}

TEST(Values, UnsignedInputsAreNotNegative) {
  for (ech_op op : parse_ops("all")) {
    const Values values(ECH_UINT8, op, 5);
    for (std::size_t i = 0; i < kPeriod; ++i) ASSERT_GE(values.input(3, i), 0);
  }
}

TEST(Values, AveragesOfFloatsAreWhole) {
  for (int ranks : {1, 3, 7, 64, 200})
    for (ech_dtype dtype : {ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32}) {
      const Values values(dtype, ECH_AVG, ranks);
      for (std::size_t i = 0; i < 200; ++i) {
        std::int64_t sum = 0;
        for (int r = 0; r < ranks; ++r) sum += values.input(r, i);
        ASSERT_EQ(sum, values.reduced(i) * ranks);
      }
    }
}

TEST(Values, ReducedIsTheOpOverRanks) {
  const Values max(ECH_FLOAT32, ECH_MAX, 3);
  const Values product(ECH_INT32, ECH_PROD, 3);
  const Values average(ECH_INT32, ECH_AVG, 3);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(max.reduced(i), std::max({max.input(0, i), max.input(1, i), max.input(2, i)}));
    EXPECT_EQ(product.reduced(i), product.input(0, i) * product.input(1, i) * product.input(2, i));
    EXPECT_EQ(average.reduced(i),
              (average.input(0, i) + average.input(1, i) + average.input(2, i)) / 3);
  }
}

// Leaving out one rank, or taking another rank's input twice, changes some elements.
TEST(Values, EveryRankMatters) {
  for (ech_op op : parse_ops("all")) {
    const int ranks = 9;
    const Values values(ECH_BFLOAT16, op, ranks);
    for (int r = 0; r < ranks; ++r) {
      bool differs = false;
      for (std::size_t i = 0; i < 500; ++i)
        differs |= values.input(r, i) != values.input((r + 1) % ranks, i);
      EXPECT_TRUE(differs) << name(op) << " rank " << r;
    }
  }
}

TEST(Values, ShiftsByPowersOfTwoAreSeen) {
  const Values values(ECH_INT8, ECH_SUM, 4);
  for (std::size_t shift = 1; shift <= 1 << 20; shift *= 2) {
    int same = 0;
    for (std::size_t i = 0; i < 100; ++i) same += values.reduced(i) == values.reduced(i + shift);
    EXPECT_LT(same, 60) << shift;
  }
}

TEST(Encode, IsTheTypesOwnFormat) {
  const auto bits = [](ech_dtype dtype, std::int64_t value) {
    std::uint64_t out = 0;
    encode(dtype, value, reinterpret_cast<std::byte*>(&out));
    return out;
  };
  EXPECT_EQ(bits(ECH_INT8, -1), 0xffu);
  EXPECT_EQ(bits(ECH_UINT32, 7), 7u);
  EXPECT_EQ(bits(ECH_INT64, -2), ~std::uint64_t{1});
  EXPECT_EQ(bits(ECH_FLOAT16, 1), 0x3c00u);
  EXPECT_EQ(bits(ECH_FLOAT16, -2), 0xc000u);
  EXPECT_EQ(bits(ECH_FLOAT16, 2047), 0x67ffu);
  EXPECT_EQ(bits(ECH_FLOAT16, 0), 0u);
  EXPECT_EQ(bits(ECH_BFLOAT16, 1), 0x3f80u);
  EXPECT_EQ(bits(ECH_BFLOAT16, -120), 0xc2f0u);
  EXPECT_EQ(bits(ECH_FLOAT32, 3), 0x40400000u);
}

TEST(Encode, TextReadsBack) {
  for (ech_dtype dtype : parse_dtypes("all"))
    for (int value : {0, 1, 5, 119}) {
      std::byte element[8];
      encode(dtype, value, element);
      EXPECT_EQ(text(dtype, element), std::to_string(value)) << name(dtype);
    }
}

TEST(Table, FindsEveryWrongElement) {
  const Values values(ECH_FLOAT16, ECH_SUM, 4);
  const std::size_t count = 3 * kPeriod + 17, first = 5000;
  const Table table(ECH_FLOAT16, first + count, [&](std::size_t i) { return values.reduced(i); });
  std::vector<std::byte> data(2 * count);
  table.fill(data, first);
  std::size_t at = 0;
  EXPECT_EQ(table.mismatches(data, first, &at), 0u);
  for (std::size_t i :
       {std::size_t{0}, std::size_t{kPeriod - first}, std::size_t{2 * kPeriod}, count - 1}) {
    std::vector<std::byte> wrong = data;
    wrong[2 * i + 1] ^= std::byte{1};
    EXPECT_EQ(table.mismatches(wrong, first, &at), 1u) << i;
    EXPECT_EQ(at, i);
  }
  EXPECT_GT(table.mismatches(data, first + 1, &at), count / 4);
}

TEST(Table, OfFewElements) {
  const Table table(ECH_INT32, 3, [](std::size_t i) { return static_cast<std::int64_t>(i); });
  std::vector<std::int32_t> data(3);
  table.fill(std::as_writable_bytes(std::span(data)), 0);
  EXPECT_EQ(data, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Checksum, SeesOrderLengthAndEveryByte) {
  std::vector<std::byte> data(37);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  std::set<std::uint64_t> sums = {checksum(data), checksum(std::span(data).first(36))};
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<std::byte> other = data;
    other[i] ^= std::byte{0x80};
    sums.insert(checksum(other));
  }
  EXPECT_EQ(sums.size(), 2 + data.size());
}

}  // namespace
}  // namespace echelon::perf
