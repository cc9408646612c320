// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/fabric/place.h"
#include "lib/fabric/quantity.h"
#include "lib/plan/choose.h"

namespace echelon::tools {
namespace {

constexpr std::string_view kColumns = "{:>10}  {:<44} {:>13} {:>12} {:>15}  {}\n";

// The ranks on the machines, and what was measured there.
struct Ground {
  Layout layout;
  std::vector<TunedPlan> tuned;
  std::string doubt;  // why what was measured is left aside
};

std::vector<RankPlace> places_of(const Fabric& fabric, int ranks) {
  std::vector<RankPlace> places = spread_ranks(fabric, ranks);
  if (places.empty()) throw invalid("the fabric has no place for a rank");
  if (places.size() > kMostPlannedRanks)
    throw invalid(fmt::format("{} ranks, expected at most {}: say how many with -n", places.size(),
                              kMostPlannedRanks));
  return places;
}

Ground ground_of(const Fabric& fabric, const PlanQuestion& question) {
  const std::vector<RankPlace> places = places_of(fabric, question.ranks);
  Ground ground{make_layout(fabric, places), {}, ""};
  if (!question.tuning) return ground;
  std::vector<int> hosts;
  for (const RankPlace& place : places) hosts.push_back(place.host);
  ground.doubt = difference(machine_key(fabric, hosts), question.tuning->machine);
  if (!ground.doubt.empty()) return ground;
  require_possible(*question.tuning, make_shape(ground.layout, true));
  ground.tuned = question.tuning->plans;
  return ground;
}

// A class of sizes up to a power of two has one plan, that for its largest.
Choice choose_on(const Shape& shape, const std::vector<TunedPlan>& tuned, const Demand& demand) {
  const std::size_t largest = std::bit_ceil(static_cast<std::size_t>(demand.bytes));
  const TunedPlan* const measured = find_tuned(tuned, demand.collective, largest);
  if (measured != nullptr) return choose_measured(shape, demand, measured->plan);
  return choose(shape, demand.collective, demand.bytes);
}

// As the library does it: the smallest of all allreduces.
Choice choose_barrier(const Shape& shape, const std::vector<TunedPlan>& tuned,
                      const std::optional<Recipe>& wanted) {
  Choice choice = wanted ? choose(shape, ECH_ALLREDUCE, 1, wanted)
                         : choose_on(shape, tuned, {ECH_ALLREDUCE, 1});
  choice.collective = ECH_BARRIER;
  choice.bytes = 0;
  return choice;
}

// Calls `show` with the choice for each size.
void each_choice(const Ground& ground, const PlanQuestion& question,
                 const std::function<void(const Choice&)>& show) {
  const Shape shape = make_shape(ground.layout, true);
  std::optional<Recipe> wanted;
  if (!question.algorithm.empty()) wanted = parse_recipe(question.algorithm);
  if (question.collective == ECH_BARRIER) return show(choose_barrier(shape, ground.tuned, wanted));
  const std::size_t width = size_of(question.dtype);
  std::size_t last = 0;
  for (std::size_t size : question.sizes) {
    const std::size_t bytes = std::max(size / width, std::size_t{1}) * width;
    if (bytes == last) continue;
    last = bytes;
    const Demand demand{question.collective, static_cast<double>(bytes)};
    show(wanted ? choose(shape, demand.collective, demand.bytes, wanted)
                : choose_on(shape, ground.tuned, demand));
  }
}

std::string_view plural(std::size_t n) { return n == 1 ? "" : "s"; }

// "cluster   4 hosts joined, ethernet 1 gbit/s per stream, 25 us (file)".
std::string tier_line(const Tier& tier) {
  const auto cost = [](const TierGroup& g) { return g.children.size(); };
  const TierGroup& widest = *std::ranges::max_element(tier.groups, {}, cost);
  const Link& link = widest.link;
  const bool network = tier.kind == TierKind::kRack || tier.kind == TierKind::kCluster;
  std::string text = fmt::format(
      "  {:<8} {:>5} group{:<1} of up to {:>4}   {} {}, {} ({})", name(tier.kind),
      tier.groups.size(), plural(tier.groups.size()), widest.children.size(), name(link.kind),
      show_bandwidth(link.bytes_per_second, network), show_time(link.latency), name(link.source));
  if (widest.child_bandwidth.empty()) return text + "\n";
  const double least = std::ranges::min(widest.child_bandwidth);
  if (least <= 0) return text + "\n";
  return text + fmt::format(", each reaches the others with {} ({})\n",
                            show_bandwidth(least, network), name(widest.child_source));
}

std::string summary(const Fabric& fabric, const Layout& layout) {
  std::string text = fmt::format(
      "{}: {} rank{} on {} host{}\n", fabric.name.empty() ? "fabric" : fabric.name, layout.size,
      plural(layout.size), layout.host_count(), plural(layout.host_names.size()));
  for (const Tier& tier : layout.tiers) text += tier_line(tier);
  for (const std::string& warning : fabric.warnings) text += "  note: " + warning + "\n";
  for (const std::string& warning : layout.warnings) text += "  note: " + warning + "\n";
  return text;
}

std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string rejected_rows(const Choice& c) {
  double least = c.best.quickest;
  for (const Candidate& other : c.rejected) least = std::min(least, other.quickest);
  const std::string good =
      fmt::format("  as good, within {:.0f} %; later in the order", 100 * (c.alike - 1));
  std::string text;
  for (const Candidate& other : c.rejected) {
    const double seconds = other.prediction.seconds;
    text += fmt::format("{:>10}  {:<44} {:>13}{}\n", "", "  not " + to_text(other.recipe),
                        microseconds(seconds), other.quickest <= c.alike * least ? good : "");
  }
  return text;
}

std::string row(const Choice& c, bool rejected) {
  const double seconds = c.best.prediction.seconds;
  const bool bounded = c.bound.seconds > 0;
  std::string text =
      fmt::format(fmt::runtime(kColumns), bytes_text(static_cast<std::size_t>(c.bytes)),
                  c.best.recipe.algorithms.empty() ? "-" : to_text(c.best.recipe),
                  microseconds(seconds), microseconds(c.bound.seconds),
                  bounded ? fmt::format("{:.2f}", seconds / c.bound.seconds) : "-", c.reason);
  if (rejected) text += rejected_rows(c);
  return text;
}

}  // namespace

std::string plan_text(const Fabric& fabric, const PlanQuestion& question) {
  const Ground ground = ground_of(fabric, question);
  std::string text = summary(fabric, ground.layout);
  if (!ground.doubt.empty())
    text += fmt::format("  note: what was measured is left aside: {}\n", ground.doubt);
  const bool barrier = question.collective == ECH_BARRIER;
  text += fmt::format("\n{}{}\n", name(question.collective),
                      barrier ? "" : fmt::format(", {}", name(question.dtype)));
  text += fmt::format(fmt::runtime(kColumns), "size", "plan", "predicted(us)", "bound(us)",
                      "predicted/bound", "because");
  each_choice(ground, question,
              [&](const Choice& choice) { text += row(choice, question.rejected); });
  return text;
}

std::string plan_json(const Fabric& fabric, const PlanQuestion& question) {
  const Ground ground = ground_of(fabric, question);
  std::string text;
  each_choice(ground, question, [&](const Choice& choice) {
    auto j = nlohmann::ordered_json::parse(explain_json(choice));
    j["ranks"] = ground.layout.size;
    j["hosts"] = ground.layout.host_count();
    if (!ground.doubt.empty()) j["tuning_left_aside"] = ground.doubt;
    if (!question.rejected) j.erase("rejected");
    text += j.dump() + "\n";
  });
  return text;
}

}  // namespace echelon::tools
