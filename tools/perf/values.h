// SPDX-License-Identifier: Apache-2.0
// The numbers that ranks put in, and what must come out.
//
// All inputs are small integers that depend on rank and index, chosen per operation so that every
// partial result, in any order and grouping, is exact in every type and for any number of ranks
// (the reasoning stands at each operation in values.cc). So a result is right or wrong; there is
// no tolerance. Indices repeat with a prime period, so that no shift by a power of two passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "echelon/echelon.h"

namespace echelon::perf {

inline constexpr std::size_t kPeriod = 8191;

class Values {
 public:
  Values(ech_dtype dtype, ech_op op, int ranks);

  std::int64_t input(int rank, std::size_t index) const;
  std::int64_t reduced(std::size_t index) const;

 private:
  std::int64_t summand(int rank, std::size_t i) const;
  std::int64_t fair_share(int rank, std::size_t i) const;

  const ech_dtype dtype_;
  const ech_op op_;
  const int ranks_;
  const bool balanced_;  // averages of floats: the sum is a multiple of the number of ranks
  int means_ = 1;        // balanced_: averages are 0..means_-1
};

// One period of encoded elements, less when `elements` is less.
class Table {
 public:
  Table(ech_dtype dtype, std::size_t elements,
        const std::function<std::int64_t(std::size_t index)>& value);

  // data[k] = element first + k.
  void fill(std::span<std::byte> data, std::size_t first) const;

  // Number of elements of `data` that are not element first + k; *at is the first of them.
  std::uint64_t mismatches(std::span<const std::byte> data, std::size_t first,
                           std::size_t* at) const;

  std::span<const std::byte> element(std::size_t index) const;

 private:
  const std::size_t width_;
  const std::size_t elements_;
  std::vector<std::byte> bytes_;
};

void encode(ech_dtype dtype, std::int64_t value, std::byte* out);  // value must be exact in dtype
std::string text(ech_dtype dtype, const std::byte* element);

// Numbers between 0.5 and 1.5 whose sums round: for comparing ranks with each other.
void fill_inexact(ech_dtype dtype, int rank, std::span<std::byte> data);

std::uint64_t checksum(std::span<const std::byte> data);

}  // namespace echelon::perf
