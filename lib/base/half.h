// SPDX-License-Identifier: Apache-2.0
// The two 16-bit floating point formats, one value at a time. Bits in, bits out: no arithmetic.
// To 16 bits: to nearest, ties to even; every NaN becomes the quiet positive one.
#pragma once

#include <bit>
#include <cstdint>

namespace echelon {

inline constexpr std::uint32_t kFloatNan = 0x7fc00000;
inline constexpr std::uint64_t kDoubleNan = 0x7ff8000000000000;

inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = value != value ? kFloatNan : std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x80000000;
  // Exponent and fraction in their float32 places: 2^112 times too small, subnormals included.
  const float small = std::bit_cast<float>((std::uint32_t{bits} & 0x7fff) << 13);
  const std::uint32_t scaled = std::bit_cast<std::uint32_t>(small * 0x1p112f);
  const std::uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;  // infinity, NaN
  return std::bit_cast<float>(scaled | special | sign);
}

inline std::uint16_t float_to_float16(float value) {
  const std::uint32_t bits = value != value ? kFloatNan : std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7e00;                                      // NaN
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // >= 65520
  if (magnitude < 0x38800000) {  // below 2^-14: subnormal; adding 0.5 rounds to units of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000) >> 13));
}

}  // namespace echelon
