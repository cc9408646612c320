// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/abi_trial.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/multi/abi_world.h"

namespace echelon::test {
namespace {

constexpr std::size_t kPeriod = 1009;
constexpr std::byte kGuardByte{0xa5};

bool is_float(ech_dtype dtype) { return dtype >= ECH_FLOAT16; }

bool is_signed(ech_dtype dtype) {
  return is_float(dtype) || dtype == ECH_INT8 || dtype == ECH_INT32 || dtype == ECH_INT64;
}

std::uint64_t mix(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ (x >> 29);
}

// 0 to limit - 1.
std::int64_t drawn(int rank, std::size_t index, int limit) {
  return static_cast<std::int64_t>(mix(index * 64 + static_cast<std::size_t>(rank) + 1) % limit);
}

// An integer below 2048 in the bits of binary16: take the exponent and fraction of binary32.
std::uint16_t half_of(std::int64_t value) {
  if (value == 0) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::abs(value)));
  const std::uint32_t magnitude = (bits >> 13) - ((127 - 15) << 10);
  return static_cast<std::uint16_t>(magnitude | (value < 0 ? 0x8000 : 0));
}

template <typename T>
void store(T value, std::byte* out) {
  std::memcpy(out, &value, sizeof value);
}

void encode(ech_dtype dtype, std::int64_t value, std::byte* out) {
  const auto single = static_cast<float>(value);
  if (dtype == ECH_FLOAT16) return store(half_of(value), out);
  if (dtype == ECH_BFLOAT16)
    return store(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16), out);
  if (dtype == ECH_FLOAT32) return store(single, out);
  if (dtype == ECH_FLOAT64) return store(static_cast<double>(value), out);
  std::memcpy(out, &value, width(dtype));  // little-endian: integers wrap
}

std::size_t blocks_in(const Case& c, int size) {
  return c.collective == ECH_REDUCE_SCATTER ? size : 1;
}
std::size_t blocks_out(const Case& c, int size) { return c.collective == ECH_ALLGATHER ? size : 1; }

}  // namespace

std::size_t width(ech_dtype dtype) {
  constexpr std::size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8};
  return kWidths[dtype];
}

std::string describe(const Case& c) {
  return fmt::format("collective {} of {} elements, type {}, op {}, root {}{}", int(c.collective),
                     c.count, int(c.dtype), int(c.op), c.root, c.in_place ? ", in place" : "");
}

void for_types_and_operations(int ranks, const std::function<void(const Case&, int)>& body) {
  int turn = 0, cases = 0;
  for (ech_collective collective : kWithData) {
    const bool reduces = collective != ECH_ALLGATHER && collective != ECH_BROADCAST;
    for (ech_dtype dtype : kTypes) {
      for (ech_op op : kOps) {
        if (!reduces && op != ECH_SUM) continue;
        const int root = ++turn % ranks;
        const bool in_place = turn % 2 == 0;
        body({collective, 1000, dtype, op, root, in_place}, ++cases);
        body({collective, 7, dtype, op, root, !in_place}, ++cases);
      }
    }
  }
}

Buffer::Buffer(std::size_t bytes) : memory_(bytes + 2 * kGuard, kGuardByte) {}

bool Buffer::guards_intact() const {
  const auto guard = [](const std::byte* at) {
    return std::all_of(at, at + kGuard, [](std::byte b) { return b == kGuardByte; });
  };
  return guard(memory_.data()) && guard(data() + size());
}

Trial::Trial(ech_comm* comm, const Case& c)
    : comm_(comm),
      case_(c),
      rank_(rank_of(comm)),
      size_(size_of(comm)),
      in_(c.in_place ? 0 : c.count * width(c.dtype) * blocks_in(c, size_)),
      out_(c.count * width(c.dtype) *
           (c.in_place ? std::max(blocks_in(c, size_), blocks_out(c, size_))
                       : blocks_out(c, size_))) {
  const std::size_t block = c.count * width(c.dtype);
  std::byte* send = c.in_place ? out_.data() : in_.data();
  recv_ = out_.data();
  if (c.in_place && c.collective == ECH_ALLGATHER) send += block * rank_;
  if (c.in_place && c.collective == ECH_REDUCE_SCATTER) recv_ += block * rank_;
  send_elements_ = c.count * blocks_in(c, size_);
  const bool root = rank_ == c.root;
  send_ = send;
  if (c.collective != ECH_BROADCAST || root) fill(send, send_elements_, inputs(rank_));
  if (c.in_place || root) return;
  if (c.collective == ECH_BROADCAST) send_ = nullptr;
  if (c.collective == ECH_REDUCE) recv_ = nullptr;
}

ech_status Trial::run() {
  const Case& c = case_;
  switch (c.collective) {
    case ECH_ALLREDUCE:
      return ech_allreduce(send_, recv_, c.count, c.dtype, c.op, comm_);
    case ECH_REDUCE_SCATTER:
      return ech_reduce_scatter(send_, recv_, c.count, c.dtype, c.op, comm_);
    case ECH_ALLGATHER:
      return ech_allgather(send_, recv_, c.count, c.dtype, comm_);
    case ECH_BROADCAST:
      return ech_broadcast(send_, recv_, c.count, c.dtype, c.root, comm_);
    case ECH_REDUCE:
      return ech_reduce(send_, recv_, c.count, c.dtype, c.op, c.root, comm_);
    default:
      return ech_barrier(comm_);
  }
}

ech_status Trial::start(ech_request** r, const ech_call* call) {
  const Case& c = case_;
  switch (c.collective) {
    case ECH_ALLREDUCE:
      return ech_iallreduce(send_, recv_, c.count, c.dtype, c.op, comm_, call, r);
    case ECH_REDUCE_SCATTER:
      return ech_ireduce_scatter(send_, recv_, c.count, c.dtype, c.op, comm_, call, r);
    case ECH_ALLGATHER:
      return ech_iallgather(send_, recv_, c.count, c.dtype, comm_, call, r);
    case ECH_BROADCAST:
      return ech_ibroadcast(send_, recv_, c.count, c.dtype, c.root, comm_, call, r);
    case ECH_REDUCE:
      return ech_ireduce(send_, recv_, c.count, c.dtype, c.op, c.root, comm_, call, r);
    default:
      return ech_ibarrier(comm_, call, r);
  }
}

void Trial::check() const {
  EXPECT_TRUE(in_.guards_intact() && out_.guards_intact()) << describe(case_);
  if (case_.collective == ECH_BARRIER) return;
  EXPECT_TRUE(result_is_right()) << describe(case_) << ", rank " << rank_ << " of " << size_;
  const bool kept = case_.collective == ECH_REDUCE && rank_ != case_.root;
  const bool had_input = case_.collective != ECH_BROADCAST || rank_ == case_.root;
  if (!had_input || (case_.in_place && !kept)) return;
  EXPECT_TRUE(same(send_, 0, send_elements_, inputs(rank_))) << "input of " << describe(case_);
}

bool Trial::result_is_right() const {
  const std::size_t n = case_.count;
  if (case_.collective == ECH_REDUCE && rank_ != case_.root) return true;
  if (case_.collective == ECH_BROADCAST) return same(recv_, 0, n, inputs(case_.root));
  if (case_.collective == ECH_REDUCE_SCATTER) return same(recv_, rank_ * n, n, results());
  if (case_.collective != ECH_ALLGATHER) return same(recv_, 0, n, results());
  for (int r = 0; r < size_; ++r)
    if (!same(recv_ + r * n * width(case_.dtype), 0, n, inputs(r))) return false;
  return true;
}

std::int64_t Trial::input(int rank, std::size_t index) const {
  const bool negative = is_signed(case_.dtype);
  switch (case_.op) {
    case ECH_SUM:
      return drawn(rank, index, 4) - (negative ? 2 : 0);
    case ECH_PROD:
      return 1 + drawn(rank, index, 2);
    case ECH_AVG:
      if (is_float(case_.dtype)) return fair_share(rank, index);
      return drawn(rank, index, 16) - (negative ? 8 : 0);
    default:
      return drawn(rank, index, 100) - (negative ? 50 : 0);
  }
}

// The same number for all, plus what a neighbour has less: the average is exact.
std::int64_t Trial::fair_share(int rank, std::size_t index) const {
  const std::int64_t mean = drawn(63, index, 7) - 3;
  if ((rank | 1) >= size_) return mean;
  const std::int64_t apart = drawn(rank / 2, index, 3);
  return rank % 2 == 0 ? mean + apart : mean - apart;
}

std::int64_t Trial::result(std::size_t index) const {
  std::int64_t total = input(0, index);
  for (int r = 1; r < size_; ++r) {
    const std::int64_t next = input(r, index);
    if (case_.op == ECH_PROD) {
      total *= next;
    } else if (case_.op == ECH_MIN) {
      total = std::min(total, next);
    } else if (case_.op == ECH_MAX) {
      total = std::max(total, next);
    } else {
      total += next;
    }
  }
  return case_.op == ECH_AVG ? total / size_ : total;
}

Trial::Pattern Trial::inputs(int rank) const {
  Pattern pattern(kPeriod * width(case_.dtype));
  for (std::size_t i = 0; i < kPeriod; ++i)
    encode(case_.dtype, input(rank, i), &pattern[i * width(case_.dtype)]);
  return pattern;
}

Trial::Pattern Trial::results() const {
  Pattern pattern(kPeriod * width(case_.dtype));
  for (std::size_t i = 0; i < kPeriod; ++i)
    encode(case_.dtype, result(i), &pattern[i * width(case_.dtype)]);
  return pattern;
}

void Trial::fill(std::byte* data, std::size_t elements, const Pattern& pattern) const {
  for (std::size_t at = 0; at < elements; at += kPeriod) {
    const std::size_t n = std::min(kPeriod, elements - at);
    std::memcpy(data + at * width(case_.dtype), pattern.data(), n * width(case_.dtype));
  }
}

bool Trial::same(const std::byte* data, std::size_t first, std::size_t elements,
                 const Pattern& pattern) const {
  const std::size_t w = width(case_.dtype);
  for (std::size_t at = 0; at < elements;) {
    const std::size_t start = (first + at) % kPeriod;
    const std::size_t n = std::min(kPeriod - start, elements - at);
    if (std::memcmp(data + at * w, &pattern[start * w], n * w) != 0) return false;
    at += n;
  }
  return true;
}

}  // namespace echelon::test
