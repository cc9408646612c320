// SPDX-License-Identifier: Apache-2.0
#include "lib/plans.h"

#include <algorithm>
#include <bit>

#include "lib/base/time.h"

namespace echelon {
namespace {

// More than a round takes where a rank naps in each, and less than where all lanes are in use:
// bench/results, "naps".
constexpr int kRoundInMessages = 2;

int size_class(std::size_t bytes) { return std::bit_width(bytes - 1); }

double largest_of_class(std::size_t bytes) {
  return static_cast<double>(std::size_t{1} << std::min(size_class(bytes), 62));
}

// Whether copies tell how fast links are. Leaders that processors keep waiting would tell too
// little.
bool is_metered(const PlanKey& key, const Candidate& plan) {
  const bool waits =
      plan.recipe.ownership == Ownership::kSplit || plan.prediction.waits_for_network;
  return key.collective == ECH_ALLREDUCE && waits && tells_of_links(plan.recipe);
}

// What the engine is to know of how the plan runs.
void tell(const PlanKey& key, const Candidate& plan, Program& program) {
  program.copies_tell = is_metered(key, plan);
  program.waits_for_network = plan.prediction.waits_for_network;
  program.message_time = from_seconds(plan.prediction.message_time);
  program.segment_time = kRoundInMessages * plan.prediction.rounds * program.message_time;
  program.under_way = static_cast<std::uint32_t>(plan.prediction.under_way);
  program.plan = to_text(plan.recipe);
}

std::uint64_t packed(const PlanKey& key) {
  return static_cast<std::uint64_t>(key.root) << 16 | size_class(key.bytes) << 8 |
         static_cast<std::uint64_t>(key.collective) << 1 | 1;
}

}  // namespace

Plans::Plans(Shape shape, int rank, std::optional<Recipe> wanted, std::vector<TunedPlan> tuned)
    : shape_(std::move(shape)), rank_(rank), tuned_(std::move(tuned)) {
  want(std::move(wanted));
}

void Plans::want(std::optional<Recipe> wanted) {
  if (wanted && !shape_.tiers.empty()) choose(shape_, ECH_ALLREDUCE, 1, wanted);
  plans_for_wanted_ = &plans_[wanted ? to_text(*wanted) : ""];
  wanted_ = std::move(wanted);
  last_key_ = 0;
}

std::optional<Recipe> Plans::wanted_for(ech_collective collective) const {
  return wanted_ && can_do(shape_, *wanted_, collective) ? wanted_ : std::nullopt;
}

const Plan& Plans::get(const PlanKey& key) {
  const std::uint64_t k = packed(key);
  if (k == last_key_) return *last_;
  auto at = plans_for_wanted_->find(k);
  if (at == plans_for_wanted_->end()) at = plans_for_wanted_->emplace(k, make(key)).first;
  last_key_ = k;
  last_ = at->second.get();
  return *last_;
}

void Plans::replan(Shape shape) {
  shape_ = std::move(shape);
  tuned_.clear();
  for (auto& [wanted, made] : plans_) {
    for (auto& [key, plan] : made) retired_.push_back(std::move(plan));
    made.clear();
  }
  last_key_ = 0;
}

Choice Plans::choose_for(const PlanKey& key) const {
  const double bytes = largest_of_class(key.bytes);
  const std::optional<Recipe> wanted = wanted_for(key.collective);
  const TunedPlan* const tuned =
      wanted ? nullptr : find_tuned(tuned_, key.collective, static_cast<std::size_t>(bytes));
  if (tuned != nullptr) return choose_measured(shape_, {key.collective, bytes}, tuned->plan);
  return choose(shape_, key.collective, bytes, wanted);
}

std::unique_ptr<Plan> Plans::make(const PlanKey& key) {
  ++made_;
  auto plan = std::make_unique<Plan>();
  plan->choice = choose_for(key);
  const Goal goal{key.collective, rank_, shape_.size, key.root};
  const Schedule schedule =
      shape_.tiers.empty()
          ? Schedule(1, rank_)
          : compose(composition_of(shape_, plan->choice.best.recipe, key.collective, key.root),
                    rank_);
  plan->whole = compile(schedule, goal, false);
  plan->cut = compile(schedule, goal, true);
  tell(key, plan->choice.best, plan->whole);
  tell(key, plan->choice.best, plan->cut);
  return plan;
}

Choice Plans::explain(const PlanKey& key) {
  Choice choice = get(key).choice;
  const double bytes = static_cast<double>(key.bytes);
  choice.bytes = bytes;
  choice.bound = lower_bound(shape_, key.collective, bytes);
  const Prediction told = choice.best.prediction;  // to the engine, for the class of sizes
  choice.best.prediction = predict(shape_, choice.best.recipe, key.collective, bytes);
  choice.best.prediction.under_way = told.under_way;
  choice.best.prediction.waits_for_network = told.waits_for_network;
  for (Candidate& c : choice.rejected)
    c.prediction = predict(shape_, c.recipe, key.collective, bytes);
  return choice;
}

}  // namespace echelon
