// SPDX-License-Identifier: Apache-2.0
// What a communicator learns while it is used: at the end of every period the ranks tell each other
// what they have noted, and where a link proves slower than believed, plans are made again.
//
// All ranks plan alike because an exchange is an operation like any other, at the same place of the
// sequence everywhere, and what is started after it gets its plan only when it has ended. No call
// blocks for that: the engine keeps such operations in its queue.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/dtype.h"
#include "lib/communicator.h"

namespace echelon {
namespace {

constexpr std::size_t kElementsPerLine = 64;  // segments begin at multiples of it

constexpr std::size_t kRounding = kElementsPerLine * sizeof(double);

// A segment of a list may be packed. With what rounding adds at most 8 MiB, for each of 8 lanes;
// and where one call in host memory does it all, as much as stays in the cache until it is added.
std::size_t most_packed(const Plan& plan, const Task& task) {
  const bool in_cache = plan.whole.one_call && !task.signature.cuda;
  return (in_cache ? 128 << 10 : 8 << 20) - kRounding;
}

// Elements per block of a segment, all segments but the last equal.
std::size_t segment_elements(const Plan& plan, const Task& task) {
  const std::size_t count = task.count, bytes = task.bytes;
  std::size_t wanted = plan.choice.best.recipe.segment;
  if (task.list) wanted = std::min(wanted == 0 ? bytes : wanted, most_packed(plan, task));
  if (wanted == 0 || wanted >= bytes) return count;
  const std::size_t segments = (bytes + wanted - 1) / wanted;
  const std::size_t even = (count + segments - 1) / segments;
  const std::size_t rounded = (even + kElementsPerLine - 1) / kElementsPerLine * kElementsPerLine;
  return std::min(count, rounded);
}

// What a user of the host sees of its links, each its share.
void set_host_speed(Host& host, double bytes_per_second) {
  const std::vector<int> nics = usable_nics(host);
  for (int nic : nics)
    host.nics[nic].bytes_per_second = {bytes_per_second / static_cast<double>(nics.size()),
                                       Source::kMeasured};
}

}  // namespace

void Communicator::set_plan(Task& task, Plans& plans) {
  const Plan& plan = plans.get({task.goal.collective, task.bytes, task.goal.root});
  task.segment = segment_elements(plan, task);
  task.program = task.segment >= task.count ? &plan.whole : &plan.cut;
}

bool Communicator::plan(Task& task, std::uint64_t sequence) {
  settle();
  if (!exchanges_.empty() && exchanges_.front().sequence < sequence) return false;
  set_plan(task, plans_);
  return true;
}

// When its exchange cannot be started, the period goes on as if nothing had been tried: the call
// that is made again closes it again, as it was on the other ranks.
void Communicator::close_period() {
  const NoteBook before = notes_;
  Exchange& exchange = exchanges_.emplace_back();
  Signature signature;
  signature.kind = Signature::kStatistics;
  try {
    exchange.sequence = engine_.next_sequence();
    exchange.timed = notes_.timed();
    exchange.mine =
        notes_.close_period(engine_.meter().take(Clock::now()), engine_.counters().gave_way);
    exchange.all.resize(size());
    const Invocation gather{ECH_ALLGATHER, &exchange.mine, exchange.all.data(), sizeof(Notes)};
    exchange.operation = engine_.start(task_of(gather, signature));
  } catch (...) {
    exchanges_.pop_back();
    notes_ = before;
    throw;
  }
}

// Those that have ended. Plans of what was started before were made before, wherever this is
// called. A rank that cannot follow, for want of memory, would plan otherwise than the others.
void Communicator::settle() {
  while (!exchanges_.empty()) {
    Operation* const operation = exchanges_.front().operation;
    if (operation == nullptr || !operation->done()) return;
    const bool succeeded = operation->status() == ECH_OK;
    const Exchange exchange = std::move(exchanges_.front());
    exchanges_.pop_front();
    engine_.release(operation);
    try {
      if (succeeded) conclude(exchange);
    } catch (...) {
      abort();
      throw;
    }
  }
}

void Communicator::conclude(const Exchange& exchange) {
  const std::uint64_t periods = findings_.periods + 1;
  findings_ = evaluate(exchange.all, exchange.timed, layout_);
  findings_.periods = periods;
  const std::vector<SlowLink> slow = slow_links_.judge(findings_.rates);
  if (!slow.empty()) replan(slow, exchange.sequence + 1);
}

void Communicator::replan(const std::vector<SlowLink>& slow, std::uint64_t from) {
  const ech_log_level level = rank_ == 0 ? ECH_LOG_WARN : ECH_LOG_INFO;  // one line for all
  for (const SlowLink& link : slow)
    log_(level, fmt::format("{}, from operation #{} on{}", echelon::describe(link, layout_), from,
                            plans_.is_tuned() ? "; what echelon tune measured is left aside" : ""));
  const std::lock_guard lock(fabric_mutex_);
  for (const SlowLink& link : slow) {
    take_over(link, layout_);
    const TierGroup& group = layout_.tiers[link.rate.tier].groups[link.rate.group];
    const Group& child = group.children[link.child];
    const int first = layout_.host_of_rank[child[0]];
    const bool one_host = std::ranges::all_of(
        child.ranks(), [&](int rank) { return layout_.host_of_rank[rank] == first; });
    if (one_host) set_host_speed(fabric_.hosts[places_[child[0]].host], link.rate.measured);
  }
  Shape shape = make_shape(layout_, plans_.shape().native);
  shape.messages = plans_.shape().messages;
  plans_.replan(std::move(shape));
  ++replans_;
}

void Communicator::statistics(ech_stats& stats) {
  settle();
  echelon::report(findings_, layout_, stats);
  stats.replans = replans_;
}

}  // namespace echelon
