// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/dtype.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr std::size_t kSmallestSegment = 64 << 10;
constexpr std::size_t kLargestSegment = 16 << 20;

// Whether `algorithm` has a part to play on tier t of T.
bool fits(const Shape& shape, Algorithm algorithm, std::size_t t, const Recipe& recipe,
          ech_collective collective) {
  const bool last = t + 1 == recipe.algorithms.size();
  const bool flat = recipe.algorithms.size() < shape.tiers.size();
  if (algorithm == Algorithm::kNative) return t == 0 && shape.native && !flat;
  if (!shape.messages) return false;
  const bool rooted = collective == ECH_BROADCAST || collective == ECH_REDUCE ||
                      (recipe.ownership == Ownership::kLeader && !last);
  if (rooted && !serves_one_owner(algorithm)) return false;
  const auto can = [&](GroupAction action) { return supports(algorithm, action); };
  switch (collective) {
    case ECH_REDUCE_SCATTER:
    case ECH_REDUCE:
      return can(GroupAction::kReduceScatter);
    case ECH_ALLGATHER:
    case ECH_BROADCAST:
      return can(GroupAction::kAllgather);
    default:
      return last ? can(GroupAction::kAllreduce)
                  : can(GroupAction::kReduceScatter) && can(GroupAction::kAllgather);
  }
}

void extend(const Shape& shape, ech_collective collective, Recipe recipe, std::size_t t,
            std::vector<Recipe>& out) {
  if (t == recipe.algorithms.size()) {
    out.push_back(recipe);
    return;
  }
  for (Algorithm algorithm : kAllAlgorithms) {
    recipe.algorithms[t] = algorithm;
    if (fits(shape, algorithm, t, recipe, collective))
      extend(shape, collective, recipe, t + 1, out);
  }
}

// "{native|ring}/{ring|direct}": of recipes with one algorithm per tier, every tier's algorithms.
// All combinations of them are possible.
std::string alternatives(const std::vector<Recipe>& recipes) {
  std::string text;
  for (std::size_t t = 0; t < recipes[0].algorithms.size(); ++t) {
    std::vector<std::string_view> words;
    for (const Recipe& r : recipes)
      if (std::ranges::find(words, name(r.algorithms[t])) == words.end())
        words.push_back(name(r.algorithms[t]));
    const std::string joined = fmt::format("{}", fmt::join(words, "|"));
    text += (t == 0 ? "" : "/") + (words.size() == 1 ? joined : "{" + joined + "}");
  }
  return text;
}

// With parts, with leaders, flat.
std::string list(const std::vector<Recipe>& recipes) {
  std::vector<std::string> kinds;
  std::vector<Recipe> alike;
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    alike.push_back(recipes[i]);
    const bool more = i + 1 < recipes.size() && recipes[i + 1].ownership == recipes[i].ownership &&
                      recipes[i + 1].algorithms.size() == recipes[i].algorithms.size();
    if (more) continue;
    const bool leader = recipes[i].ownership == Ownership::kLeader;
    kinds.push_back((leader ? "leader:" : "") + alternatives(alike));
    alike.clear();
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

double seconds(const Candidate& c) { return c.prediction.seconds; }

// The first of those as good as the best. So what comes first in a list is preferred.
std::vector<Candidate>::const_iterator first_alike(const std::vector<Candidate>& list) {
  const double least = seconds(std::ranges::min(list, {}, seconds));
  return std::ranges::find_if(list,
                              [&](const Candidate& c) { return seconds(c) <= kAlike * least; });
}

// The recipe with the segment size that serves it best. Of sizes alike the largest that still
// fills the pipeline, since larger segments cost less processor time; else the largest.
Candidate best_segment(const Shape& shape, const Recipe& recipe, ech_collective collective,
                       double bytes) {
  std::vector<Candidate> filling, others{{recipe, predict(shape, recipe, collective, bytes)}};
  for (std::size_t size = kLargestSegment; size >= kSmallestSegment; size /= 2) {
    if (recipe.segment != 0 || static_cast<double>(size) >= bytes) continue;
    Recipe cut = recipe;
    cut.segment = size;
    auto& list = static_cast<double>(size) * kPipelineDepth <= bytes ? filling : others;
    list.push_back({cut, predict(shape, cut, collective, bytes)});
  }
  filling.insert(filling.end(), others.begin(), others.end());
  return *first_alike(filling);
}

std::string describe(const Candidate& c) {
  const Prediction& p = c.prediction;
  if (p.latency > p.seconds / 2)
    return fmt::format("the latency of {} step{}", p.rounds, p.rounds == 1 ? "" : "s");
  if (p.busiest_load == 0) return "the work of " + p.busiest;
  return fmt::format("{} on {}", bytes_text(static_cast<std::size_t>(p.busiest_load)), p.busiest);
}

std::string why(const Choice& choice, bool wanted) {
  if (wanted) return "asked for";
  if (choice.best.recipe.algorithms.empty()) return "one rank has nothing to exchange";
  std::string text = describe(choice.best);
  if (choice.rejected.empty()) return text + "; nothing else can do it";
  const Candidate& next = choice.rejected.front();
  const double factor = next.prediction.seconds / choice.best.prediction.seconds;
  if (factor < kAlike) return text + "; " + to_text(next.recipe) + " would do as well";
  return text +
         fmt::format("; next {} takes {:.2f} x: {}", to_text(next.recipe), factor, describe(next));
}

std::vector<AssumedLink> links_of(const Shape& shape) {
  std::vector<AssumedLink> links;
  for (const TierShape& tier : shape.tiers) {
    links.push_back({std::string(name(tier.kind)), tier.link});
    if (tier.kind == TierKind::kHost) continue;
    links.back().together = tier.slowest_child;
    links.back().together_source = tier.child_source;
  }
  if (shape.staging) links.push_back({"staging", *shape.staging});
  return links;
}

}  // namespace

std::vector<Recipe> candidates(const Shape& shape, ech_collective collective) {
  std::vector<Recipe> all;
  const std::size_t tiers = shape.tiers.size();
  if (tiers == 0) return all;
  const bool has_leaders =
      collective != ECH_REDUCE_SCATTER && collective != ECH_ALLGATHER && tiers > 1;
  for (Ownership ownership : {Ownership::kSplit, Ownership::kLeader}) {
    if (ownership == Ownership::kLeader && !has_leaders) continue;
    Recipe recipe{ownership, std::vector<Algorithm>(tiers), 0};
    extend(shape, collective, recipe, 0, all);
  }
  if (tiers > 1) extend(shape, collective, {Ownership::kSplit, {Algorithm::kRing}, 0}, 0, all);
  return all;
}

bool can_do(const Shape& shape, Recipe recipe, ech_collective collective) {
  recipe.segment = 0;
  const std::vector<Recipe> possible = candidates(shape, collective);
  return std::ranges::find(possible, recipe) != possible.end();
}

Choice choose(const Shape& shape, ech_collective collective, double bytes,
              const std::optional<Recipe>& wanted) {
  Choice choice;
  choice.collective = collective;
  choice.bytes = bytes;
  choice.bound = lower_bound(shape, collective, bytes);
  choice.links = links_of(shape);
  if (shape.tiers.empty()) {
    choice.reason = why(choice, false);
    return choice;
  }
  std::vector<Recipe> recipes = candidates(shape, collective);
  if (wanted) {
    if (!can_do(shape, *wanted, collective))
      throw invalid(fmt::format("plan \"{}\" cannot do {} on this layout; possible are {}",
                                to_text(*wanted), name(collective), list(recipes)));
    recipes = {*wanted};
  }
  std::vector<Candidate> costed;
  for (const Recipe& r : recipes) costed.push_back(best_segment(shape, r, collective, bytes));
  const auto best = first_alike(costed);
  choice.best = *best;
  costed.erase(best);
  std::ranges::stable_sort(costed, {}, seconds);
  choice.rejected = std::move(costed);
  choice.reason = why(choice, wanted.has_value());
  return choice;
}

Composition composition_of(const Shape& shape, const Recipe& recipe, ech_collective collective,
                           int root) {
  Composition c;
  c.collective = collective == ECH_BARRIER ? ECH_ALLREDUCE : collective;
  c.size = shape.size;
  c.root = root;
  c.ownership = recipe.ownership;
  if (recipe.algorithms.size() < shape.tiers.size()) {
    c.tiers = {{{Group::range(shape.size)}, recipe.algorithms.front(), "all ranks"}};
    return c;
  }
  for (std::size_t t = 0; t < shape.tiers.size(); ++t)
    c.tiers.push_back(
        {shape.tiers[t].groups, recipe.algorithms[t], std::string(name(shape.tiers[t].kind))});
  return c;
}

}  // namespace echelon
