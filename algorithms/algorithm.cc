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
  const double reduced = action == GroupAction::kAllgather ? 0 : others;
  return {.rounds = rounds,
          .moved = moved,
          .reduced = reduced,
          .messages = messages,
          .in_all = static_cast<double>(n) * messages,
          .sent = n * moved,
          .added = n * reduced,
          .handled = 2 * moved};
}

// A buffer of each other member goes to the owner, or the owner's to each of them. `buffers` pass
// the busiest member, and no further ones the other way, but on a ring.
Cost one_owner(bool reduces, int n, int rounds, double buffers, int messages) {
  const double others = n - 1.0;
  return {.rounds = rounds,
          .moved = buffers,
          .reduced = reduces ? buffers : 0,
          .messages = messages,
          .in_all = messages == 0 ? 0 : others,
          .sent = others,
          .added = reduces ? others : 0,
          .handled = buffers};
}

Cost native_cost(GroupAction action, int n) { return balanced(action, n, n > 1 ? 1 : 0, 0); }

Cost native_one_owner(bool reduces, int n) {
  return one_owner(reduces, n, 1, reduces ? n - 1.0 : 1, 0);
}

Cost ring_cost(GroupAction action, int n) {
  const int rounds = action == GroupAction::kAllreduce ? 2 * (n - 1) : n - 1;
  return balanced(action, n, rounds, rounds);
}

Cost ring_one_owner(bool reduces, int n) {
  Cost cost = one_owner(reduces, n, n - 1, 1, 1);
  cost.handled = n > 2 ? 2 : 1;
  return cost;
}

Cost direct_cost(GroupAction action, int n) {
  const int shots = action == GroupAction::kAllreduce ? 2 : 1;
  return balanced(action, n, n > 1 ? shots : 0, shots * (n - 1));
}

Cost direct_one_owner(bool reduces, int n) { return one_owner(reduces, n, 1, n - 1.0, n - 1); }

Cost one_shot_cost(GroupAction, int n) {
  const double others = n - 1.0;
  return {.rounds = n > 1 ? 1 : 0,
          .moved = others,
          .reduced = others,
          .messages = n - 1,
          .in_all = n * others,
          .sent = n * others,
          .added = n * others,
          .handled = 2 * others};
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
  const double blocks = pairs / static_cast<double>(n), others = n - 1.0;
  switch (action) {
    case GroupAction::kReduceScatter:
      return {.rounds = levels + 2,
              .moved = 1 + block,
              .reduced = 1 + block,
              .messages = levels + 1,
              .in_all = folded + exchanged,
              .sent = others + blocks,
              .added = others,
              .handled = 2 + block - 1.0 / n};
    case GroupAction::kAllgather:
      return {.rounds = levels + 2,
              .moved = block + others / n,
              .messages = levels + 2,
              .in_all = folded + pairs + exchanged,
              .sent = others,
              .handled = 2 + block - 2.0 / n};
    case GroupAction::kAllreduce:
      break;
  }
  return {.rounds = both + 2,
          .moved = 1 + 2 * core,
          .reduced = 1 + core,
          .messages = both + 1,
          .in_all = folded + 2 * exchanged,
          .sent = 2 * others,
          .added = others,
          .handled = 2 + 4 * core};
}

Cost recursive_doubling_cost(GroupAction, int n) {
  const int levels = floor_log2(n), p = 1 << levels;
  const int exchanges = n == p ? levels : levels + 1;
  const double exchanged = 1.0 * p * levels, folded = n - p;
  return {.rounds = n == p ? levels : levels + 2,
          .moved = static_cast<double>(exchanges),
          .reduced = static_cast<double>(exchanges),
          .messages = exchanges,
          .in_all = 2 * folded + exchanged,
          .sent = 2 * folded + exchanged,
          .added = folded + exchanged,
          .handled = 2.0 * exchanges};
}

Cost double_tree_cost(GroupAction, int n) {
  const double moved[] = {0, 0, 1, 1.5, 2}, reduced[] = {0, 0, 0.5, 1, 1};
  const int messages[] = {0, 0, 2, 3, 4};
  const int row = std::min(n, 4);
  const double others = n - 1.0;
  return {.rounds = 2 * floor_log2(n),
          .moved = moved[row],
          .reduced = reduced[row],
          .messages = messages[row],
          .in_all = 4 * others,
          .sent = 2 * others,
          .added = others,
          .handled = 2 * moved[row]};
}

Cost binomial_cost(GroupAction action, int n) {
  const int levels = ceil_log2(n);
  if (action != GroupAction::kAllreduce) return balanced(action, n, levels, n - 1);
  const double others = n - 1.0;
  return {.rounds = 2 * levels,
          .moved = static_cast<double>(levels),
          .reduced = static_cast<double>(levels),
          .messages = levels,
          .in_all = 2 * others,
          .sent = 2 * others,
          .added = others,
          .handled = 2.0 * levels};
}

Cost binomial_one_owner(bool reduces, int n) {
  const int levels = ceil_log2(n);
  return one_owner(reduces, n, levels, levels, levels);
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

// Two have one way to exchange halves, whoever adds up which, one to exchange all, and one to give
// each what it owns.
bool repeats_another(Algorithm algorithm, GroupAction action, int n) {
  if (n > 2 || algorithm == Algorithm::kNative || !supports(algorithm, action)) return false;
  switch (algorithm) {
    case Algorithm::kHalvingDoubling:
    case Algorithm::kDoubleTree:
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
