// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/reduce/reference.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "lib/base/dtype.h"
#include "lib/base/half.h"

namespace echelon {
namespace {

__extension__ typedef __int128 Wide;

std::uint64_t bits_of(ech_dtype dtype, const std::byte* p) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, p, size_of(dtype));
  return bits;
}

bool is_signed(ech_dtype t) { return t == ECH_INT8 || t == ECH_INT32 || t == ECH_INT64; }
bool is_integer(ech_dtype t) { return t <= ECH_UINT64; }

Wide integer(ech_dtype dtype, std::uint64_t bits) {
  const int width = 8 * static_cast<int>(size_of(dtype));
  const Wide value = bits;
  const bool negative = is_signed(dtype) && (bits >> (width - 1) & 1);
  return negative ? value - (Wide{1} << width) : value;
}

double decode(ech_dtype dtype, std::uint64_t bits) {
  switch (dtype) {
    case ECH_FLOAT16:
      return float16_to_float(static_cast<std::uint16_t>(bits));
    case ECH_BFLOAT16:
      return bfloat16_to_float(static_cast<std::uint16_t>(bits));
    case ECH_FLOAT32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

std::uint64_t encode(ech_dtype dtype, double value) {
  switch (dtype) {
    case ECH_FLOAT16:
      return float_to_float16(static_cast<float>(value));
    case ECH_BFLOAT16:
      return float_to_bfloat16(static_cast<float>(value));
    case ECH_FLOAT32:
      return std::isnan(value) ? kFloatNan
                               : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    default:
      return std::isnan(value) ? kDoubleNan : std::bit_cast<std::uint64_t>(value);
  }
}

double smaller(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double apply(ech_op op, double a, double b) {
  switch (op) {
    case ECH_PROD:
      return a * b;
    case ECH_MIN:
      return smaller(a, b);
    case ECH_MAX:
      return -smaller(-a, -b);
    default:
      return a + b;
  }
}

// Unsigned, so that the reference has no overflow of its own.
Wide apply(ech_op op, Wide a, Wide b) {
  __extension__ typedef unsigned __int128 Modular;
  switch (op) {
    case ECH_PROD:
      return static_cast<Wide>(static_cast<Modular>(a) * static_cast<Modular>(b));
    case ECH_MIN:
      return a < b ? a : b;
    case ECH_MAX:
      return a < b ? b : a;
    default:
      return a + b;
  }
}

// A product or sum of float32 numbers in float64, rounded to float32, is the float32 result.
double rounded(ech_dtype dtype, double value) {
  return dtype == ECH_FLOAT64 ? value : static_cast<double>(static_cast<float>(value));
}

}  // namespace

void reference_element(ech_dtype dtype, ech_op op, const std::vector<const std::byte*>& sources,
                       std::size_t at, std::byte* out) {
  std::uint64_t bits = bits_of(dtype, sources[0] + at);
  if (sources.size() > 1 && is_integer(dtype)) {
    Wide value = integer(dtype, bits);
    for (std::size_t j = 1; j < sources.size(); ++j) {
      value = apply(op, value, integer(dtype, bits_of(dtype, sources[j] + at)));
      value =
          integer(dtype, static_cast<std::uint64_t>(value) & (~0ull >> (64 - 8 * size_of(dtype))));
    }
    bits = static_cast<std::uint64_t>(value);
  } else if (sources.size() > 1) {
    double value = decode(dtype, bits);
    for (std::size_t j = 1; j < sources.size(); ++j)
      value = rounded(dtype, apply(op, value, decode(dtype, bits_of(dtype, sources[j] + at))));
    bits = encode(dtype, value);
  }
  std::memcpy(out, &bits, size_of(dtype));
}

void reference_quotient(ech_dtype dtype, std::byte* element, int divisor) {
  std::uint64_t bits = bits_of(dtype, element);
  if (is_integer(dtype))
    bits = static_cast<std::uint64_t>(integer(dtype, bits) / divisor);
  else if (dtype == ECH_FLOAT64)
    bits = encode(dtype, decode(dtype, bits) / divisor);
  else  // the divisor too is a float32
    bits = encode(dtype, rounded(dtype, decode(dtype, bits) / static_cast<float>(divisor)));
  std::memcpy(element, &bits, size_of(dtype));
}

void reference_product(ech_dtype dtype, std::byte* element, double factor) {
  const double value = decode(dtype, bits_of(dtype, element));
  const std::uint64_t bits =
      dtype == ECH_FLOAT64
          ? encode(dtype, value * factor)
          : encode(dtype, rounded(dtype, value * static_cast<double>(static_cast<float>(factor))));
  std::memcpy(element, &bits, size_of(dtype));
}

std::vector<std::byte> special_values(ech_dtype dtype, std::size_t count, unsigned seed) {
  const std::size_t size = size_of(dtype);
  const int width = 8 * static_cast<int>(size);
  const std::uint64_t one = encode(is_integer(dtype) ? ECH_FLOAT64 : dtype, 1.0);
  const std::uint64_t infinity = is_integer(dtype) ? 0x7f : encode(dtype, INFINITY);
  const std::uint64_t sign = 1ull << (width - 1);
  const std::uint64_t chosen[] = {0,
                                  sign,
                                  1,
                                  sign | 1,
                                  infinity,
                                  infinity - 1,
                                  one,
                                  ~0ull,
                                  infinity + 1,
                                  sign | infinity,
                                  sign | one,
                                  sign - 1,
                                  3,
                                  7};
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t draw = random();
    const std::uint64_t bits = draw % 4 != 0 ? chosen[draw / 4 % std::size(chosen)] : random();
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

}  // namespace echelon
