// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/base/join.h"
#include "lib/plan/crowd.h"

namespace echelon {
namespace {

constexpr std::size_t kUsualSegment = 128 << 10;  // and larger
constexpr std::size_t kLargestSegment = 16 << 20;
constexpr double kSmallestMessage = 16 << 10;
constexpr double kCalm = 1.0 / 6;  // these three are measured: bench/results, "Small segments"

// Smaller ones are for allreduces of so many bytes only that wait for the network in messages that
// are not short: bench/results, "Segments of 64 KiB".
constexpr std::size_t kSmallestSegment = kUsualSegment / 2;
constexpr double kSmallestFrom = 1 << 20, kSmallestTo = 4 << 20, kLongMessage = 32 << 10;

// What a tier, the last or another, does in `collective`.
std::vector<GroupAction> actions(ech_collective collective, bool last) {
  switch (collective) {
    case ECH_REDUCE_SCATTER:
    case ECH_REDUCE:
      return {GroupAction::kReduceScatter};
    case ECH_ALLGATHER:
    case ECH_BROADCAST:
      return {GroupAction::kAllgather};
    default:
      if (last) return {GroupAction::kAllreduce};
      return {GroupAction::kReduceScatter, GroupAction::kAllgather};
  }
}

// Whether `algorithm` has a part to play on tier t of T.
bool fits(const Shape& shape, Algorithm algorithm, std::size_t t, const Recipe& recipe,
          ech_collective collective) {
  const bool last = t + 1 == recipe.algorithms.size();
  const bool flat = recipe.algorithms.size() < shape.tiers.size();
  if (algorithm == Algorithm::kNative)
    return is_joint_call(shape, recipe) || (t == 0 && shape.native && !flat);
  if (!shape.messages) return false;
  const bool rooted = collective == ECH_BROADCAST || collective == ECH_REDUCE ||
                      (recipe.ownership == Ownership::kLeader && !last);
  if (rooted && !serves_one_owner(algorithm)) return false;
  return std::ranges::all_of(actions(collective, last),
                             [&](GroupAction action) { return supports(algorithm, action); });
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
    const std::string all = joined(words, "|");
    text += (t == 0 ? "" : "/") + (words.size() == 1 ? all : "{" + all + "}");
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
  return joined(kinds, ", ");
}

// Whether another candidate sends the same.
bool is_twin(const Shape& shape, const Recipe& recipe, ech_collective collective) {
  if (recipe.algorithms.size() < shape.tiers.size()) return false;
  for (std::size_t t = 0; t < recipe.algorithms.size(); ++t) {
    const std::vector<GroupAction> all = actions(collective, t + 1 == recipe.algorithms.size());
    const auto repeats = [&](GroupAction action) {
      return repeats_another(recipe.algorithms[t], action, shape.tiers[t].most_children);
    };
    if (std::ranges::all_of(all, repeats)) return true;
  }
  return false;
}

double seconds(const Candidate& c) { return c.prediction.seconds; }

// Whether ranks outnumber CPUs, and these are the limit.
bool is_crowded(const Shape& shape, const Prediction& prediction) {
  return shape.cpus_per_rank < 1 && prediction.busiest_load == 0;
}

// Where processors limit: few ranks that work while the others sleep, and few messages one after
// the other, as rings of more than two have not.
int order_where_crowded(const Shape& shape, const Recipe& recipe) {
  const bool flat = recipe.algorithms.size() < shape.tiers.size();
  bool chain = false;
  for (std::size_t t = 0; t < recipe.algorithms.size(); ++t)
    chain |= recipe.algorithms[t] == Algorithm::kRing &&
             (flat ? shape.size : shape.tiers[t].most_children) > 2;
  return (recipe.ownership == Ownership::kLeader ? 0 : 2) + (chain ? 1 : 0);
}

// The first of those as good as the best. So what comes first in a list is preferred.
std::vector<Candidate>::const_iterator first_alike(const std::vector<Candidate>& list,
                                                   double alike) {
  const double least = std::ranges::min(list, {}, &Candidate::quickest).quickest;
  return std::ranges::find_if(list,
                              [&](const Candidate& c) { return c.quickest <= alike * least; });
}

bool is_guessed(const Shape& shape) { return shape.joint_call->source == Source::kDefault; }

// The quickest of those that are not a joint call, or of all if there is nothing else.
const Candidate& quickest_own(const Shape& shape, const std::vector<Candidate>& list) {
  const auto order = [&](const Candidate& c) {
    return std::pair(is_joint_call(shape, c.recipe), c.quickest);
  };
  return *std::ranges::min_element(list, {}, order);
}

// By what is preferred of what is alike, where ranks outnumber CPUs. Plans that wait for the
// network take the same time by leaders, and less of the processors, where these move what is in a
// host.
void put_in_order(const Shape& shape, const Prediction& quickest, std::vector<Candidate>& list) {
  const bool crowded = is_crowded_memory(shape, shape.tiers[0]);
  if (is_crowded(shape, quickest))
    std::ranges::stable_sort(
        list, {}, [&](const Candidate& c) { return order_where_crowded(shape, c.recipe); });
  else if (crowded && quickest.waits_for_network)
    std::ranges::stable_sort(
        list, {}, [](const Candidate& c) { return c.recipe.ownership == Ownership::kSplit; });
}

// The first alike, unless that is a joint call that may not be worth it.
std::vector<Candidate>::const_iterator preferred(const Shape& shape,
                                                 const std::vector<Candidate>& list, double alike) {
  const auto joint = [&](const Candidate& c) { return is_joint_call(shape, c.recipe); };
  const auto call = std::ranges::find_if(list, joint);
  if (call == list.end() || list.size() == 1) return first_alike(list, alike);
  const double least = quickest_own(shape, list).quickest;
  if (!is_guessed(shape) && call->quickest * kWorthJointCall < least) return call;
  return std::ranges::find_if(
      list, [&](const Candidate& c) { return !joint(c) && c.quickest <= alike * least; });
}

// Why a joint call was not taken.
std::string why_not_joint(const Shape& shape, const Choice& choice) {
  if (!shape.joint_call) return shape.no_joint_call;
  const auto call = std::ranges::find_if(
      choice.rejected, [&](const Candidate& c) { return is_joint_call(shape, c.recipe); });
  if (call == choice.rejected.end()) return "";
  std::vector<Candidate> others = choice.rejected;
  others.push_back(choice.best);
  const double part = call->quickest / quickest_own(shape, others).quickest;
  if (part * kWorthJointCall < 1 && is_guessed(shape))
    return fmt::format("predicted {:.2f} x, but with a speed of the network that is a guess", part);
  if (part >= 1) return fmt::format("predicted {:.2f} x", part);
  return fmt::format("predicted {:.2f} x; taken below {:.2f} x", part, 1 / kWorthJointCall);
}

// Whether messages and calls are few enough to leave the processors free for most of the time.
bool calm(const Candidate& c) {
  const Prediction& p = c.prediction;
  return p.overhead <= kCalm && (p.message == 0 || p.message >= kSmallestMessage);
}

// Whether an allreduce may have the smallest segments, given what is predicted for those.
bool suits_smallest(const Prediction& p) {
  return p.waits_for_network && p.message >= kLongMessage;
}

// The recipe with the segment size that serves it best. Of sizes alike the smallest that is calm,
// since a rank that adds or copies a segment does not feed its network meanwhile; else the one with
// the fewest messages. Where ranks outnumber CPUs, and these are the limit, the smallest.
Candidate best_segment(const Shape& shape, const Recipe& recipe, ech_collective collective,
                       double bytes) {
  // One call does it all, and divides it as is best there.
  const bool is_whole = recipe.algorithms == std::vector{Algorithm::kNative};
  std::vector<Candidate> sizes;
  const bool few = collective == ECH_ALLREDUCE && bytes >= kSmallestFrom && bytes <= kSmallestTo;
  for (std::size_t size = few ? kSmallestSegment : kUsualSegment; size <= kLargestSegment;
       size *= 2) {
    if (recipe.segment != 0 || is_whole || static_cast<double>(size) >= bytes) break;
    Recipe cut = recipe;
    cut.segment = size;
    const Prediction prediction = predict(shape, cut, collective, bytes);
    if (size >= kUsualSegment || suits_smallest(prediction)) sizes.push_back({cut, prediction});
  }
  sizes.push_back({recipe, predict(shape, recipe, collective, bytes)});
  const Prediction least = std::ranges::min(sizes, {}, seconds).prediction;
  std::erase_if(sizes, [&](const Candidate& c) { return seconds(c) > kAlike * least.seconds; });
  const auto first = is_crowded(shape, least) ? sizes.begin() : std::ranges::find_if(sizes, calm);
  Candidate best = first == sizes.end() ? sizes.back() : *first;
  best.quickest = least.seconds;
  return best;
}

std::string describe(const Candidate& c) {
  const Prediction& p = c.prediction;
  if (p.latency > p.seconds / 2 && p.messages > 0)
    return fmt::format("what {} messages and their rounds take of the processors", p.messages);
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
  // A joint call that is predicted quicker has a line of its own.
  const auto slower = std::ranges::find_if(choice.rejected, [&](const Candidate& c) {
    return c.quickest * choice.alike >= choice.best.quickest;
  });
  const Candidate& next = slower == choice.rejected.end() ? choice.rejected.front() : *slower;
  const double factor = next.quickest / choice.best.quickest;
  if (std::abs(factor - 1) < kAlike - 1)
    return text + "; " + to_text(next.recipe) + " would do as well";
  if (factor < choice.alike)
    return text + fmt::format("; {} is predicted {:.2f} x, alike where ranks share processors",
                              to_text(next.recipe), factor);
  return text +
         fmt::format("; next {} takes {:.2f} x: {}", to_text(next.recipe), factor, describe(next));
}

std::vector<AssumedLink> links_of(const Shape& shape) {
  std::vector<AssumedLink> links;
  for (const TierShape& tier : shape.tiers) {
    links.push_back({std::string(name(tier.kind)), tier.link});
    if (is_served_as_one(tier.kind)) continue;
    links.back().together = tier.slowest_child;
    links.back().together_source = tier.child_source;
  }
  if (shape.staging) links.push_back({"staging", *shape.staging});
  if (shape.joint_call) links.push_back({"all ranks", *shape.joint_call});
  return links;
}

}  // namespace

std::vector<Recipe> candidates(const Shape& shape, ech_collective collective) {
  std::vector<Recipe> all;
  const std::size_t tiers = shape.tiers.size();
  if (tiers == 0) return all;
  for (Ownership ownership : {Ownership::kSplit, Ownership::kLeader}) {
    if (ownership == Ownership::kLeader && tiers == 1) continue;
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
  if (wanted && !can_do(shape, *wanted, collective))
    throw invalid(fmt::format("plan \"{}\" cannot do {} on this layout; possible are {}",
                              to_text(*wanted), name(collective),
                              list(candidates(shape, collective))));
  std::vector<Recipe> recipes = wanted ? std::vector{*wanted} : candidates(shape, collective);
  if (!wanted)
    std::erase_if(recipes, [&](const Recipe& r) { return is_twin(shape, r, collective); });
  std::vector<Candidate> costed;
  for (const Recipe& r : recipes) costed.push_back(best_segment(shape, r, collective, bytes));
  // Reduce_scatter and allgather keep the order of the list, since leaders were slower there.
  if (!is_blockwise(collective)) {
    const Prediction quickest = quickest_own(shape, costed).prediction;
    if (is_crowded(shape, quickest)) choice.alike = kAlikeWhereCrowded;
    put_in_order(shape, quickest, costed);
  }
  const auto best = preferred(shape, costed, choice.alike);
  choice.best = *best;
  costed.erase(best);
  std::ranges::stable_sort(costed, {}, &Candidate::quickest);
  choice.rejected = std::move(costed);
  choice.reason = why(choice, wanted.has_value());
  if (!wanted) choice.joint_call = why_not_joint(shape, choice);
  return choice;
}

Choice choose_measured(const Shape& shape, const Demand& demand, const MeasuredPlan& measured) {
  Choice choice = choose(shape, demand.collective, demand.bytes);
  if (shape.tiers.empty()) return choice;
  choice.alike = 0;  // this was not decided by predictions
  const auto time = [](double seconds) {
    const double us = seconds * 1e6;
    return us < 1000 ? fmt::format("{:.4g} us", us) : fmt::format("{:.0f} us", us);
  };
  const Recipe& taken = measured.recipe;
  choice.reason = fmt::format(
      "measured by echelon tune: {}, {}", time(measured.seconds),
      taken == measured.model ? "which the model chooses, too"
                              : fmt::format("the model's choice {} took {}",
                                            to_text(measured.model), time(measured.model_seconds)));
  choice.rejected.push_back(choice.best);
  std::erase_if(choice.rejected, [&](const Candidate& c) {
    return c.recipe.ownership == taken.ownership && c.recipe.algorithms == taken.algorithms;
  });
  std::ranges::stable_sort(choice.rejected, {}, &Candidate::quickest);
  const Prediction prediction = predict(shape, taken, demand.collective, demand.bytes);
  choice.best = {taken, prediction, prediction.seconds};
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
