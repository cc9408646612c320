// SPDX-License-Identifier: Apache-2.0
#include "algorithms/algorithm.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "algorithms/binomial.h"
#include "algorithms/direct.h"
#include "algorithms/double_tree.h"
#include "algorithms/halving_doubling.h"
#include "algorithms/native.h"
#include "algorithms/recursive_doubling.h"
#include "algorithms/ring.h"

namespace echelon {
namespace {

using Build = int (*)(Schedule&, int, const Group&, const Shares&);

struct Entry {
  Algorithm algorithm;
  std::string_view name;
  Build build[3];  // by GroupAction; nullptr: not supported
  Cost (*cost)(GroupAction action, int n);
  Cost (*cost_of_one_owner)(bool reduces, int n);  // n > 1; nullptr: of no use there
};

int floor_log2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

// What no algorithm with balanced members can go below in bytes.
Cost balanced(GroupAction action, int n, int rounds, int messages) {
  const double others = (n - 1.0) / n;
  const double moved = action == GroupAction::kAllreduce ? 2 * others : others;
  const double in_all = static_cast<double>(n) * messages;
  const double reduced = action == GroupAction::kAllgather ? 0 : others;
  return {rounds, moved, reduced, messages, in_all, n * moved};
}

Cost native_cost(GroupAction action, int n) { return balanced(action, n, n > 1 ? 1 : 0, 0); }

Cost native_one_owner(bool reduces, int n) {
  return reduces ? Cost{1, n - 1.0, n - 1.0, 0, 0, n - 1.0} : Cost{1, 1, 0, 0, 0, n - 1.0};
}

Cost ring_cost(GroupAction action, int n) {
  const int rounds = action == GroupAction::kAllreduce ? 2 * (n - 1) : n - 1;
  return balanced(action, n, rounds, rounds);
}

Cost ring_one_owner(bool reduces, int n) {
  return {n - 1, 1, reduces ? 1.0 : 0, 1, n - 1.0, n - 1.0};
}

Cost direct_cost(GroupAction action, int n) {
  const int shots = action == GroupAction::kAllreduce ? 2 : 1;
  return balanced(action, n, n > 1 ? shots : 0, shots * (n - 1));
}

Cost direct_one_owner(bool reduces, int n) {
  return {1, n - 1.0, reduces ? n - 1.0 : 0, n - 1, n - 1.0, n - 1.0};
}

Cost one_shot_cost(GroupAction, int n) {
  return {n > 1 ? 1 : 0, n - 1.0, n - 1.0, n - 1, n * (n - 1.0), n * (n - 1.0)};
}

Cost halving_doubling_cost(GroupAction action, int n) {
  const int levels = floor_log2(n), p = 1 << levels, pairs = n - p;
  const int both = 2 * levels;
  if (pairs == 0) {
    const int rounds = action == GroupAction::kAllreduce ? both : levels;
    return balanced(action, n, rounds, rounds);
  }
  double block = 0;  // the X of the header
  for (int d = 1; d < p; d *= 2) block += (d + std::min(d, pairs)) / static_cast<double>(n);
  const double core = (p - 1.0) / p, folded = 2.0 * pairs, exchanged = 1.0 * p * levels;
  const double blocks = pairs / static_cast<double>(n);
  switch (action) {
    case GroupAction::kReduceScatter:
      return {levels + 2, 1 + block,          1 + block,
              levels + 1, folded + exchanged, pairs + (p - 1) + blocks};
    case GroupAction::kAllgather:
      return {levels + 2, block + (n - 1.0) / n,      0,
              levels + 2, folded + pairs + exchanged, n - 1.0};
    case GroupAction::kAllreduce:
      break;
  }
  return {both + 2, 1 + 2 * core, 1 + core, both + 1, folded + 2 * exchanged, 2.0 * (n - 1)};
}

Cost recursive_doubling_cost(GroupAction, int n) {
  const int levels = floor_log2(n), p = 1 << levels;
  const int exchanges = n == p ? levels : levels + 1;
  const double buffers = exchanges, in_all = 2.0 * (n - p) + 1.0 * p * levels;
  return {n == p ? levels : levels + 2, buffers, buffers, exchanges, in_all, in_all};
}

Cost double_tree_cost(GroupAction, int n) {
  const double moved[] = {0, 0, 1, 1.5, 2}, reduced[] = {0, 0, 0.5, 1, 1};
  const int messages[] = {0, 0, 2, 3, 4};
  const int row = std::min(n, 4);
  return {2 * floor_log2(n), moved[row], reduced[row], messages[row], 4.0 * (n - 1), 2.0 * (n - 1)};
}

Cost binomial_cost(GroupAction action, int n) {
  const int levels = ceil_log2(n);
  if (action != GroupAction::kAllreduce) return balanced(action, n, levels, n - 1);
  const double buffers = levels;
  return {2 * levels, buffers, buffers, levels, 2.0 * (n - 1), 2.0 * (n - 1)};
}

Cost binomial_one_owner(bool reduces, int n) {
  const int levels = ceil_log2(n);
  const double buffers = levels, others = n - 1.0;
  return {levels, buffers, reduces ? buffers : 0, levels, others, others};
}

constexpr Entry kTable[] = {
    {Algorithm::kNative,
     "native",
     {native_reduce_scatter, native_allgather, native_allreduce},
     native_cost,
     native_one_owner},
    {Algorithm::kRing,
     "ring",
     {ring_reduce_scatter, ring_allgather, ring_allreduce},
     ring_cost,
     ring_one_owner},
    {Algorithm::kHalvingDoubling,
     "halving_doubling",
     {halving_doubling_reduce_scatter, halving_doubling_allgather, halving_doubling_allreduce},
     halving_doubling_cost,
     nullptr},
    {Algorithm::kRecursiveDoubling,
     "recursive_doubling",
     {nullptr, nullptr, recursive_doubling_allreduce},
     recursive_doubling_cost,
     nullptr},
    {Algorithm::kDoubleTree,
     "double_tree",
     {nullptr, nullptr, double_tree_allreduce},
     double_tree_cost,
     nullptr},
    {Algorithm::kDirect,
     "direct",
     {direct_reduce_scatter, direct_allgather, direct_allreduce},
     direct_cost,
     direct_one_owner},
    {Algorithm::kOneShot,
     "one_shot",
     {nullptr, nullptr, one_shot_allreduce},
     one_shot_cost,
     nullptr},
    {Algorithm::kBinomial,
     "binomial",
     {binomial_reduce_scatter, binomial_allgather, binomial_allreduce},
     binomial_cost,
     binomial_one_owner},
};

const Entry& entry(Algorithm algorithm) {
  return *std::ranges::find(kTable, algorithm, &Entry::algorithm);
}

Build build(Algorithm algorithm, GroupAction action) {
  return entry(algorithm).build[static_cast<int>(action)];
}

}  // namespace

std::string_view name(Algorithm algorithm) { return entry(algorithm).name; }

std::optional<Algorithm> parse_algorithm(std::string_view text) {
  const auto* it = std::ranges::find(kTable, text, &Entry::name);
  if (it == std::end(kTable)) return std::nullopt;
  return it->algorithm;
}

bool supports(Algorithm algorithm, GroupAction action) {
  return build(algorithm, action) != nullptr;
}

// Two have one way to exchange halves, one to exchange all, and one to give each what it owns.
bool repeats_another(Algorithm algorithm, GroupAction action, int n) {
  if (n > 2 || algorithm == Algorithm::kNative || !supports(algorithm, action)) return false;
  switch (algorithm) {
    case Algorithm::kHalvingDoubling:
    case Algorithm::kDirect:
    case Algorithm::kOneShot:
      return true;
    case Algorithm::kBinomial:
      return action != GroupAction::kAllreduce;
    default:
      return false;
  }
}

int add_collective(Schedule& out, int step, Algorithm algorithm, GroupAction action,
                   const Group& group, const Shares& shares) {
  assert(supports(algorithm, action));
  assert(group.size() == static_cast<int>(shares.size()));
  if (out.viewer() != Schedule::kEveryone && group.index_of(out.viewer()) < 0)
    return step + cost(algorithm, action, group.size()).rounds;
  return build(algorithm, action)(out, step, group, shares);
}

Cost cost(Algorithm algorithm, GroupAction action, int n) {
  assert(supports(algorithm, action) && n >= 1);
  return entry(algorithm).cost(action, n);
}

bool serves_one_owner(Algorithm algorithm) { return entry(algorithm).cost_of_one_owner != nullptr; }

Cost cost_of_one_owner(Algorithm algorithm, GroupAction action, int n) {
  assert(serves_one_owner(algorithm) && action != GroupAction::kAllreduce && n >= 1);
  if (n < 2) return {};
  return entry(algorithm).cost_of_one_owner(action == GroupAction::kReduceScatter, n);
}

}  // namespace echelon
