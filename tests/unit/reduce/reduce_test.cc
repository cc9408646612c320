// SPDX-License-Identifier: Apache-2.0
// reduce() against a reference that takes one element at a time, over types, operators, numbers
// of sources, counts, alignments and buffers in place. Results are compared bit by bit.
#include "lib/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/base/half.h"
#include "lib/reduce/kernels.h"
#include "tests/unit/reduce/reference.h"

namespace echelon {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(n / 8 + 1);
  for (std::uint64_t& word : words) word = random();
  Bytes bytes(n);
  if (n > 0) std::memcpy(bytes.data(), words.data(), n);
  return bytes;
}

bool same(const std::byte* a, const Bytes& b) { return std::equal(b.begin(), b.end(), a); }

// Sources at odd addresses, each with bytes before and behind that must survive.
struct Sources {
  Sources(std::size_t number, std::size_t bytes, std::size_t shift) : bytes(bytes) {
    for (std::size_t j = 0; j < number; ++j) {
      const std::size_t begin = (shift * (j + 1)) % 64;
      memory.push_back(random_bytes(begin + bytes + 64, 31 * j + bytes));
      data.push_back(memory.back().data() + begin);
    }
  }
  std::vector<const std::byte*> pointers() const { return {data.begin(), data.end()}; }

  std::size_t bytes;
  std::vector<Bytes> memory;
  std::vector<std::byte*> data;
};

Bytes expected(ech_dtype dtype, ech_op op, const Sources& sources) {
  Bytes out(sources.bytes);
  for (std::size_t at = 0; at < sources.bytes; at += size_of(dtype))
    reference_element(dtype, op, sources.pointers(), at, out.data() + at);
  return out;
}

class Reduce : public testing::TestWithParam<std::tuple<ech_dtype, ech_op>> {
 protected:
  ech_dtype dtype() const { return std::get<0>(GetParam()); }
  ech_op op() const { return std::get<1>(GetParam()); }

  void check(std::size_t number, std::size_t count, std::size_t shift) const {
    SCOPED_TRACE(testing::Message()
                 << number << " sources, " << count << " elements, shift " << shift);
    const Sources sources(number, count * size_of(dtype()), shift);
    const Bytes want = expected(dtype(), op(), sources);
    Bytes out(shift + want.size() + 1, std::byte{0x5a});
    reduce(dtype(), op(), sources.pointers(), out.data() + shift, count);
    ASSERT_TRUE(same(out.data() + shift, want));
    ASSERT_EQ(out.back(), std::byte{0x5a});
    ASSERT_TRUE(shift == 0 || out[shift - 1] == std::byte{0x5a});
  }

  void check_in_place(std::size_t number, std::size_t count, std::size_t position) const {
    SCOPED_TRACE(testing::Message()
                 << number << " sources, " << count << " elements, in place of " << position);
    const Sources sources(number, count * size_of(dtype()), 4);
    const Bytes want = expected(dtype(), op(), sources);
    const Bytes before = sources.memory[position];
    reduce(dtype(), op(), sources.pointers(), sources.data[position], count);
    ASSERT_TRUE(same(sources.data[position], want));
    ASSERT_EQ(sources.memory[position].back(), before.back());
  }
};

std::string case_name(const testing::TestParamInfo<Reduce::ParamType>& info) {
  return std::string(name(std::get<0>(info.param))) + "_" +
         std::string(name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(All, Reduce,
                         testing::Combine(testing::ValuesIn(kAllTypes), testing::ValuesIn(kAllOps)),
                         case_name);

TEST_P(Reduce, EveryNumberOfSourcesAndCount) {
  std::vector<std::size_t> counts = {0, 1, 2, 3, 7, 1000, 4099};
  for (std::size_t n = 15; n <= 65; ++n) counts.push_back(n);
  for (const std::size_t number : {1, 2, 3, 4, 5, 8, 17, 64})
    for (const std::size_t count : counts)
      if (number * count <= 20000) check(number, count, 0);
}

TEST_P(Reduce, AnyAlignment) {
  for (const std::size_t shift : {1, 2, 3, 4, 8, 13, 32})
    for (const std::size_t number : {1, 2, 3, 5})
      for (const std::size_t count : {1, 31, 300}) check(number, count, shift);
}

TEST_P(Reduce, InPlaceOfAnySource) {
  for (const std::size_t number : {1, 2, 3, 4, 5, 8, 17})
    for (std::size_t position = 0; position < number; ++position)
      check_in_place(number, 613, position);
}

// The same element gives the same bits wherever it stands, in whatever order two come.
TEST_P(Reduce, SameBitsAtEveryPositionAndInEitherOrder) {
  const std::size_t size = size_of(dtype()), count = 259;
  const Bytes a = special_values(dtype(), count), b = special_values(dtype(), count, 7);
  Bytes ab(a.size()), ba(a.size()), one(size);
  reduce(dtype(), op(), a.data(), b.data(), ab.data(), count);
  reduce(dtype(), op(), b.data(), a.data(), ba.data(), count);
  ASSERT_EQ(ab, ba);
  for (std::size_t i = 0; i < count; ++i) {
    reduce(dtype(), op(), a.data() + i * size, b.data() + i * size, one.data(), 1);
    ASSERT_EQ(std::memcmp(one.data(), ab.data() + i * size, size), 0) << i;
    reference_element(dtype(), op(), {a.data(), b.data()}, i * size, one.data());
    ASSERT_EQ(std::memcmp(one.data(), ab.data() + i * size, size), 0) << i;
  }
}

TEST_P(Reduce, PlainKernelsGiveTheSameBits) {
  for (const std::size_t number : {2, 5}) {
    const Sources sources(number, 1001 * size_of(dtype()), 4);
    const auto pointers = sources.pointers();
    Bytes out(sources.bytes);
    plain_reduce(dtype(), op())({pointers, 0, out.data(), 1001});
    ASSERT_EQ(out, expected(dtype(), op(), sources));
  }
}

TEST(ReduceLarge, ResultsThatBypassTheCacheAreTheSame) {
  const std::size_t count = (9 << 20) / 2 + 5;
  const Sources sources(3, count * 2, 2);
  Bytes out(3 + sources.bytes + 1, std::byte{0x5a}), want(sources.bytes);
  reduce(ECH_BFLOAT16, ECH_SUM, sources.pointers(), out.data() + 3, count);
  plain_reduce(ECH_BFLOAT16, ECH_SUM)({sources.pointers(), 0, want.data(), count});
  EXPECT_TRUE(same(out.data() + 3, want));
  EXPECT_EQ(out[2], std::byte{0x5a});
  EXPECT_EQ(out.back(), std::byte{0x5a});
}

// 4096 + 1 + 1 ... in float16: each step alone would round back to 4096.
TEST(ReduceHalf, RoundsOnceOverAllSources) {
  const std::uint16_t large = float_to_float16(4096), one = float_to_float16(1);
  for (const std::size_t number : {3, 5, 17, 64}) {
    std::vector<std::uint16_t> values(number, one);
    values[0] = large;
    std::vector<const std::byte*> sources;
    for (const std::uint16_t& v : values) sources.push_back(reinterpret_cast<const std::byte*>(&v));
    std::uint16_t out = 0;
    reduce(ECH_FLOAT16, ECH_SUM, sources, reinterpret_cast<std::byte*>(&out), 1);
    EXPECT_EQ(out, float_to_float16(4095 + static_cast<float>(number))) << number;
  }
}

TEST(Copy, AnySizeAndAlignment) {
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 4097, 9 << 20})
    for (const std::size_t shift : {0, 1, 8, 63}) {
      const Bytes in = random_bytes(bytes + 7, bytes);
      Bytes out(shift + bytes + 1, std::byte{0x5a});
      echelon::copy(out.data() + shift, in.data() + 7, bytes);
      ASSERT_TRUE(std::equal(in.begin() + 7, in.end(), out.begin() + shift)) << bytes;
      ASSERT_EQ(out.back(), std::byte{0x5a});
      ASSERT_TRUE(shift == 0 || out[shift - 1] == std::byte{0x5a});
    }
}

class Divide : public testing::TestWithParam<ech_dtype> {};
INSTANTIATE_TEST_SUITE_P(All, Divide, testing::ValuesIn(kAllTypes));

TEST_P(Divide, MatchesTheReferenceAndThePlainKernel) {
  const std::size_t size = size_of(GetParam());
  for (const int divisor : {1, 2, 3, 7, 1000, std::numeric_limits<int>::max()})
    for (const std::size_t count : {0, 1, 5, 16, 33, 500}) {
      Bytes data = special_values(GetParam(), count), plain = data, want = data;
      for (std::size_t i = 0; i < count; ++i)
        reference_quotient(GetParam(), want.data() + i * size, divisor);
      divide(GetParam(), data.data(), count, divisor);
      plain_divide(GetParam())(plain.data(), count, divisor);
      ASSERT_EQ(data, want) << divisor << " " << count;
      ASSERT_EQ(plain, want) << divisor << " " << count;
    }
}

class Scale : public testing::TestWithParam<ech_dtype> {};
INSTANTIATE_TEST_SUITE_P(Floats, Scale,
                         testing::Values(ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64));

TEST_P(Scale, MatchesTheReferenceAndThePlainKernel) {
  const std::size_t size = size_of(GetParam());
  for (const double factor : {1.0, 0.0, -2.0, 1.0 / 3, 1e-30, 3e38, 1e300, HUGE_VAL, std::nan("")})
    for (const std::size_t count : {0, 1, 5, 16, 33, 500}) {
      const Bytes data = special_values(GetParam(), count);
      Bytes want = data, out(data.size()), plain(data.size()), in_place = data;
      for (std::size_t i = 0; i < count; ++i)
        reference_product(GetParam(), want.data() + i * size, factor);
      scale(GetParam(), out.data(), data.data(), count, factor);
      scale(GetParam(), in_place.data(), in_place.data(), count, factor);
      plain_scale(GetParam())({plain.data(), data.data(), count, factor});
      ASSERT_EQ(out, want) << factor << " " << count;
      ASSERT_EQ(in_place, want) << factor << " " << count;
      ASSERT_EQ(plain, want) << factor << " " << count;
    }
}

TEST(KernelTarget, IsNamed) {
  const std::string target = kernel_target();
  EXPECT_TRUE(target == "avx512" || target == "avx2" || target == "neon" || target == "plain")
      << target;
}

}  // namespace
}  // namespace echelon
