// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/expressions.h"

#include <algorithm>

namespace echelon {

Expressions::Expressions(int size) {
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::uint16_t> counts(size, 0);
    counts[rank] = 1;
    add(std::move(counts));
  }
}

Expression Expressions::sum(std::vector<Expression> operands) {
  if (operands.size() == 1) return operands.front();
  if (operands.size() == 2) std::ranges::sort(operands);
  if (const auto it = known_.find(operands); it != known_.end()) return it->second;
  std::vector<std::uint16_t> counts(counts_.front().size(), 0);
  for (const Expression e : operands)
    for (std::size_t k = 0; k < counts.size(); ++k) counts[k] += counts_[e][k];
  const Expression sum = add(std::move(counts));
  known_.emplace(std::move(operands), sum);
  return sum;
}

Expression Expressions::add(std::vector<std::uint16_t> counts) {
  complete_.push_back(std::ranges::all_of(counts, [](auto k) { return k == 1; }));
  counts_.push_back(std::move(counts));
  return static_cast<Expression>(counts_.size()) - 1;
}

}  // namespace echelon
