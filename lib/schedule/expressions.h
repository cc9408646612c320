// SPDX-License-Identifier: Apache-2.0
// Sums of ranks' inputs as values. Equal expressions are the same id, so that comparing them and
// remembering their contents costs nothing.
//
// Not thread-safe. Invariant: ids 0..size-1 are the ranks' inputs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace echelon {

using Expression = int;
inline constexpr Expression kNothing = -1;  // memory that was never written

class Expressions {
 public:
  explicit Expressions(int size);

  Expression input(int rank) const { return rank; }

  // The sum of `operands`, taken from left to right by one rank. A sum of two commutes: the same
  // bits either way.
  Expression sum(std::vector<Expression> operands);

  // How often each rank's input is in it.
  const std::vector<std::uint16_t>& counts(Expression e) const { return counts_[e]; }
  bool complete(Expression e) const { return e != kNothing && complete_[e]; }

 private:
  Expression add(std::vector<std::uint16_t> counts);

  std::vector<std::vector<std::uint16_t>> counts_;
  std::vector<bool> complete_;  // every input exactly once
  std::map<std::vector<Expression>, Expression> known_;
};

}  // namespace echelon
