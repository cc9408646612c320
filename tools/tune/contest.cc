// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/contest.h"

#include <algorithm>

#include "tools/perf/statistics.h"
#include "tools/perf/words.h"
#include "tools/tune/candidates.h"

namespace echelon::tune {
namespace {

constexpr double kNoChance = 2;         // times the quickest, at first sight
constexpr double kClearlySlower = 1.3;  // after some rounds
constexpr std::size_t kLeastRounds = 3;
constexpr std::size_t kMostRounds = 25;
constexpr std::size_t kWithNeighbours = 3;
constexpr double kForTheLast = 0.25;  // of the time
constexpr double kSample = 1e-3;      // s: many plans and rounds share the time

double time_of(const Contestant& c) { return c.seconds.empty() ? c.first : c.median(); }

}  // namespace

double Contestant::median() const { return perf::summarize(seconds).median; }

Contest::Contest(const Arena& arena, perf::Trial& trial, std::size_t bytes)
    : arena_(arena), trial_(trial), bytes_(bytes) {}

double Contest::passed() const {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
  return arena_.plain.max(since.count());
}

// Per operation. The first one under a plan makes it, and warms up.
double Contest::take(const Contestant& contestant, int operations) {
  arena_.forced.set_algorithm(forced(contestant.recipe, bytes_));
  trial_.run();
  arena_.plain.barrier();
  const auto begin = std::chrono::steady_clock::now();
  trial_.run(perf::Form::kBlocking, operations);
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin;
  return arena_.plain.max(since.count() / operations);
}

void Contest::enter(const Recipe& recipe) {
  const auto same = [&](const Contestant& c) { return c.recipe == recipe; };
  if (std::ranges::any_of(contestants_, same)) return;
  Contestant c{recipe, 0, {}};
  c.first = take(c, 1);
  contestants_.push_back(std::move(c));
  ++tried_;
}

void Contest::try_once(std::span<const Recipe> recipes, double seconds) {
  for (const Recipe& recipe : recipes)
    if (tried_ < 2 || passed() < seconds) enter(recipe);
}

// The model's choice stays: the others are compared with it.
void Contest::drop(double factor) {
  const double most = factor * time_of(*std::ranges::min_element(contestants_, {}, time_of));
  contestants_.erase(std::remove_if(contestants_.begin() + 1, contestants_.end(),
                                    [&](const Contestant& c) { return time_of(c) > most; }),
                     contestants_.end());
}

void Contest::keep_leaders() {
  const Contestant quickest = best();
  const bool two = !(quickest.recipe == model().recipe);
  contestants_.erase(contestants_.begin() + 1, contestants_.end());
  if (two) contestants_.push_back(quickest);
}

void Contest::add_neighbours(double seconds) {
  std::vector<Contestant> quickest = contestants_;
  std::ranges::stable_sort(quickest, {}, time_of);
  quickest.resize(std::min(quickest.size(), kWithNeighbours));
  for (const Contestant& c : quickest)
    for (const Recipe& recipe : neighbours(c.recipe, bytes_))
      if (passed() < seconds) enter(recipe);
}

void Contest::take_turns() {
  perf::EffortLimits limits;
  limits.batching = !perf::has_root(trial_.what().collective);
  limits.sample = kSample;
  for (Contestant& c : contestants_)
    c.seconds.push_back(take(c, perf::effort(c.first, limits).batch));
}

void Contest::decide(double seconds) {
  const double choosing = (1 - kForTheLast) * seconds;
  drop(kNoChance);
  add_neighbours(choosing);
  drop(kNoChance);
  for (std::size_t round = 0; round < kMostRounds && passed() < choosing; ++round) {
    if (round == kLeastRounds) drop(kClearlySlower);
    take_turns();
  }
  keep_leaders();
  if (contestants_.size() > 1)
    for (Contestant& c : contestants_) c.seconds.clear();
  while (model().seconds.size() < kLeastRounds ||
         (model().seconds.size() < kMostRounds && passed() < seconds))
    take_turns();
}

const Contestant& Contest::best() const {
  return *std::ranges::min_element(contestants_, {}, time_of);
}

}  // namespace echelon::tune
