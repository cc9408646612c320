// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/group_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lib/base/dtype.h"

namespace echelon::test {
namespace {

constexpr std::size_t kPeriod = 251;  // elements after which inputs repeat; fits no block
constexpr std::byte kUntouched{0xa5};
constexpr std::byte kScribble{0xee};

// Small integers: sums of 8 stay below 33, products below 257.
std::int64_t value(ech_op op, int member, std::size_t i) {
  const std::int64_t at = static_cast<std::int64_t>(i);
  if (op == ECH_PROD) return 1 + (at + member) % 2;
  return (at * 7 + at / 5 + member * 3) % 5;
}

std::int64_t combine(ech_op op, std::int64_t a, std::int64_t b) {
  if (op == ECH_PROD) return a * b;
  if (op == ECH_MIN) return std::min(a, b);
  if (op == ECH_MAX) return std::max(a, b);
  return a + b;  // an average is a sum until someone divides
}

// The 16 bits of a small non-negative integer as binary16.
std::uint16_t to_half(std::int64_t v) {
  if (v == 0) return 0;
  const int exponent = std::bit_width(static_cast<std::uint64_t>(v)) - 1;
  const std::int64_t fraction = (v << 10 >> exponent) & 0x3ff;
  return static_cast<std::uint16_t>((exponent + 15) << 10 | fraction);
}

template <typename T>
void put(std::byte* out, T v) {
  std::memcpy(out, &v, sizeof v);
}

void encode(ech_dtype dtype, std::int64_t v, std::byte* out) {
  switch (dtype) {
    case ECH_FLOAT16:
      return put(out, to_half(v));
    case ECH_BFLOAT16:
      return put(out, std::uint16_t(std::bit_cast<std::uint32_t>(float(v)) >> 16));
    case ECH_FLOAT32:
      return put(out, float(v));
    case ECH_FLOAT64:
      return put(out, double(v));
    default:
      std::memcpy(out, &v, size_of(dtype));  // little-endian: the low bytes, so it wraps
  }
}

// One period of what `value_of` says of element 0, 1, ...
template <typename Value>
Bytes period_of(ech_dtype dtype, const Value& value_of) {
  const std::size_t element = size_of(dtype);
  Bytes period(kPeriod * element);
  for (std::size_t i = 0; i < kPeriod; ++i) encode(dtype, value_of(i), &period[i * element]);
  return period;
}

// Bytes [offset, offset + bytes) of the endless repetition of `period`.
void repeat(const Bytes& period, std::size_t offset, std::byte* out, std::size_t bytes) {
  for (std::size_t at = offset % period.size(); bytes > 0; at = 0) {
    const std::size_t n = std::min(bytes, period.size() - at);
    std::memcpy(out, &period[at], n);
    out += n;
    bytes -= n;
  }
}

bool same(const Bytes& bytes, const std::byte* data) {
  return std::memcmp(bytes.data(), data, bytes.size()) == 0;
}

std::size_t extent(const std::vector<GroupPart>& parts, std::size_t GroupPart::*offset) {
  std::size_t end = 0;
  for (const GroupPart& p : parts) end = std::max(end, p.*offset + p.bytes);
  return end;
}

}  // namespace

std::vector<GroupPart> even_parts(int owners, std::size_t count, ech_dtype dtype) {
  std::vector<GroupPart> parts;
  const std::size_t size = size_of(dtype);
  for (int o = 0; o < owners; ++o) {
    const std::size_t begin = count * o / owners * size, end = count * (o + 1) / owners * size;
    parts.push_back({begin, begin, end - begin, o});
  }
  return parts;
}

std::vector<GroupPart> uneven_parts(const GroupRank& rank, ech_dtype dtype, bool moved) {
  const std::size_t counts[] = {5, 0, 1000, 1, 17, rank.made.largest / 60, 64, 3, 4099};
  const std::size_t size = size_of(dtype);
  std::vector<GroupPart> parts;
  std::size_t at = 3 * size;
  for (int i = 0; i < 9; ++i) {
    const int owner = rank.size == 1 ? 0 : 1 + (i * 5) % (rank.size - 1);
    parts.push_back({at, at, counts[i] * size, owner});
    at += (counts[i] + i % 3) * size;
  }
  std::swap(parts[1], parts[7]);
  if (!moved) return parts;
  std::size_t to = size;
  for (GroupPart& part : parts) {
    part.output_offset = to;
    to += part.bytes + 2 * size;
  }
  return parts;
}

Trial::Trial(Call call, const GroupRank& rank)
    : call_(std::move(call)), self_(rank.self), size_(rank.size) {
  const std::size_t element = size_of(call_.dtype);
  input_.resize(extent(call_.parts, &GroupPart::input_offset) + element);
  repeat(inputs_of(self_), 0, input_.data(), input_.size());
  in_ = rank.made.allocate(input_.size());
  std::copy(input_.begin(), input_.end(), in_.get());
  out_bytes_ = extent(call_.parts, &GroupPart::output_offset) + element;
  out_ = call_.in_place ? in_ : rank.made.allocate(out_bytes_);
  if (!call_.in_place) std::fill_n(out_.get(), out_bytes_, kUntouched);
}

// Who gets nothing has no output.
GroupWork Trial::work() const {
  const bool any = std::ranges::any_of(call_.parts, [&](const auto& part) { return gets(part); });
  return {call_.action, call_.dtype, call_.op, in_.get(), any ? out_.get() : nullptr, call_.parts};
}

bool Trial::gets(const GroupPart& part) const {
  return call_.action != GroupAction::kReduceScatter || part.owner == self_;
}

Bytes Trial::inputs_of(int member) const {
  return period_of(call_.dtype, [&](std::size_t i) { return value(call_.op, member, i); });
}

Bytes Trial::reduced() const {
  return period_of(call_.dtype, [&](std::size_t i) {
    std::int64_t v = value(call_.op, 0, i);
    for (int m = 1; m < size_; ++m) v = combine(call_.op, v, value(call_.op, m, i));
    return v;
  });
}

Bytes Trial::expected() const {
  const Bytes sum = reduced();
  Bytes expected = call_.in_place ? input_ : Bytes(out_bytes_, kUntouched);
  for (const GroupPart& part : call_.parts) {
    if (!gets(part)) continue;
    const bool gathers = call_.action == GroupAction::kAllgather;
    repeat(gathers ? inputs_of(part.owner) : sum, part.input_offset,
           expected.data() + part.output_offset, part.bytes);
  }
  return expected;
}

void Trial::expect_correct() {
  result_.assign(out_.get(), out_.get() + out_bytes_);
  const bool kept = call_.in_place || same(input_, in_.get());
  std::fill_n(in_.get(), input_.size(), kScribble);
  std::fill_n(out_.get(), out_bytes_, kScribble);
  EXPECT_TRUE(kept) << "the input was written";
  const Bytes want = expected();
  if (same(want, result_.data())) return;
  const auto wrong = std::mismatch(want.begin(), want.end(), result_.begin(), result_.end());
  ADD_FAILURE() << name(call_.action) << " " << name(call_.dtype) << " " << name(call_.op)
                << (call_.in_place ? " in place" : "") << ", member " << self_ << " of " << size_
                << ": byte " << wrong.first - want.begin() << " of " << want.size() << " is wrong";
}

}  // namespace echelon::test
