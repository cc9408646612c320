// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

std::int64_t random(int rank, std::size_t i, int limit) {
  return static_cast<std::int64_t>(mix((static_cast<std::uint64_t>(rank) << 32) + i + 1) % limit);
}

// Whether `rank` is among the `window` ranks, out of `ranks`, that element i calls up. Every rank
// is called up by some element.
bool called(int rank, std::size_t i, int ranks, int window) {
  return (static_cast<std::size_t>(rank) + i) % ranks < static_cast<std::size_t>(window);
}

bool is_signed(ech_dtype dtype) {
  return dtype == ECH_INT8 || dtype == ECH_INT32 || dtype == ECH_INT64 || is_float(dtype);
}

// The largest number up to which all integers are exact.
std::int64_t exact_limit(ech_dtype dtype) {
  if (dtype == ECH_BFLOAT16) return 1 << 8;
  if (dtype == ECH_FLOAT16) return 1 << 11;
  return 1 << 24;
}

constexpr int kSumWindow = 40;     // ranks with 0..3: sums up to 120 fit i8, and bf16's 8 bits
constexpr int kProductWindow = 6;  // ranks with 1 or 2: products up to 64
constexpr int kPairWindow = 32;    // pairs of ranks with +1, -1 or +2, -2: at most 64 apart
constexpr int kSpread = 100;       // minimum and maximum: any number below works

}  // namespace

Values::Values(ech_dtype dtype, ech_op op, int ranks)
    : dtype_(dtype), op_(op), ranks_(ranks), balanced_(op == ECH_AVG && is_float(dtype)) {
  // Partial sums reach ranks x (means_ - 1) + 2 x kPairWindow at most.
  const std::int64_t room = exact_limit(dtype) - 2 * kPairWindow;
  means_ = static_cast<int>(std::clamp<std::int64_t>(room / ranks, 0, 2)) + 1;
}

std::int64_t Values::summand(int rank, std::size_t i) const {
  return called(rank, i, ranks_, kSumWindow) ? random(rank, i, 4) : 0;
}

// The average, plus what the other rank of the pair has less.
std::int64_t Values::fair_share(int rank, std::size_t i) const {
  const std::int64_t mean = random(-1, i, means_);
  const int pairs = ranks_ / 2;
  const int pair = rank / 2;
  if (pair >= pairs || !called(pair, i, pairs, kPairWindow)) return mean;
  const std::int64_t apart = 1 + random(pair, i, 2);
  return rank % 2 == 0 ? mean + apart : mean - apart;
}

std::int64_t Values::input(int rank, std::size_t index) const {
  const std::size_t i = index % kPeriod;
  switch (op_) {
    case ECH_PROD:
      return called(rank, i, ranks_, kProductWindow) ? 1 + random(rank, i, 2) : 1;
    case ECH_MIN:
    case ECH_MAX:
      return random(rank, i, kSpread) - (is_signed(dtype_) ? kSpread / 2 : 0);
    case ECH_AVG:
      return balanced_ ? fair_share(rank, i) : summand(rank, i);
    default:
      return summand(rank, i);
  }
}

std::int64_t Values::reduced(std::size_t index) const {
  std::int64_t result = input(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const std::int64_t next = input(rank, index);
    if (op_ == ECH_PROD) {
      result *= next;
    } else if (op_ == ECH_MIN) {
      result = std::min(result, next);
    } else if (op_ == ECH_MAX) {
      result = std::max(result, next);
    } else {
      result += next;
    }
  }
  return op_ == ECH_AVG ? result / ranks_ : result;  // truncates, as the library promises
}

Table::Table(ech_dtype dtype, std::size_t elements,
             const std::function<std::int64_t(std::size_t)>& value)
    : width_(size_of(dtype)),
      elements_(std::clamp<std::size_t>(elements, 1, kPeriod)),
      bytes_(elements_ * width_) {
  for (std::size_t i = 0; i < elements_; ++i) encode(dtype, value(i), &bytes_[i * width_]);
}

void Table::fill(std::span<std::byte> data, std::size_t first) const {
  std::size_t at = first % kPeriod * width_;
  while (!data.empty()) {
    const std::size_t n = std::min(bytes_.size() - at, data.size());
    std::memcpy(data.data(), &bytes_[at], n);
    data = data.subspan(n);
    at = 0;
  }
}

std::uint64_t Table::mismatches(std::span<const std::byte> data, std::size_t first,
                                std::size_t* at) const {
  std::uint64_t wrong = 0;
  const std::size_t count = data.size() / width_;
  for (std::size_t done = 0; done < count;) {
    const std::size_t start = (first + done) % kPeriod;
    const std::size_t n = std::min(elements_ - start, count - done);
    const bool same = std::memcmp(&data[done * width_], &bytes_[start * width_], n * width_) == 0;
    for (std::size_t i = 0; i < n && !same; ++i) {
      const std::size_t k = done + i;
      if (std::memcmp(&data[k * width_], &bytes_[(start + i) * width_], width_) == 0) continue;
      if (wrong++ == 0) *at = k;
    }
    done += n;
  }
  return wrong;
}

std::span<const std::byte> Table::element(std::size_t index) const {
  return {&bytes_[index % kPeriod * width_], width_};
}

namespace {

std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value == 0) return 0;
  const std::uint32_t sign = bits >> 16 & 0x8000;
  return static_cast<std::uint16_t>(sign | (((bits & 0x7fffffff) >> 13) - ((127 - 15) << 10)));
}

std::uint16_t to_bfloat(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

float from_half(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const float magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                          : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::ldexp(1024.f + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
void store(T value, std::byte* out) {
  std::memcpy(out, &value, sizeof value);
}

template <typename T>
T load(const std::byte* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

void encode_float(ech_dtype dtype, double value, std::byte* out) {
  const auto single = static_cast<float>(value);
  if (dtype == ECH_FLOAT16) return store(to_half(single), out);
  if (dtype == ECH_BFLOAT16) return store(to_bfloat(single), out);
  if (dtype == ECH_FLOAT32) return store(single, out);
  store(value, out);
}

}  // namespace

void encode(ech_dtype dtype, std::int64_t value, std::byte* out) {
  if (is_float(dtype)) return encode_float(dtype, static_cast<double>(value), out);
  // Two's complement: the low bytes are the value in every integer type.
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(out, &value, size_of(dtype));
}

std::string text(ech_dtype dtype, const std::byte* element) {
  switch (dtype) {
    case ECH_INT8:
      return fmt::format("{}", load<std::int8_t>(element));
    case ECH_UINT8:
      return fmt::format("{}", load<std::uint8_t>(element));
    case ECH_INT32:
      return fmt::format("{}", load<std::int32_t>(element));
    case ECH_UINT32:
      return fmt::format("{}", load<std::uint32_t>(element));
    case ECH_INT64:
      return fmt::format("{}", load<std::int64_t>(element));
    case ECH_UINT64:
      return fmt::format("{}", load<std::uint64_t>(element));
    case ECH_FLOAT16:
      return fmt::format("{}", from_half(load<std::uint16_t>(element)));
    case ECH_BFLOAT16:
      return fmt::format("{}", std::bit_cast<float>(load<std::uint16_t>(element) * 65536u));
    case ECH_FLOAT32:
      return fmt::format("{}", load<float>(element));
    case ECH_FLOAT64:
      break;
  }
  return fmt::format("{}", load<double>(element));
}

void fill_inexact(ech_dtype dtype, int rank, std::span<std::byte> data) {
  const std::size_t width = size_of(dtype);
  for (std::size_t i = 0; i < data.size() / width; ++i) {
    const auto random =
        static_cast<double>(mix((static_cast<std::uint64_t>(rank) << 40) + i + 1) >> 11);
    encode_float(dtype, 0.5 + random * 0x1p-53, &data[i * width]);
  }
}

std::uint64_t checksum(std::span<const std::byte> data) {
  std::uint64_t sum = data.size();
  for (; data.size() >= 8; data = data.subspan(8))
    sum = (std::rotl(sum, 23) ^ load<std::uint64_t>(data.data())) * 0x9e3779b97f4a7c15u;
  for (std::byte b : data) sum = (sum ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return mix(sum);
}

}  // namespace echelon::perf
