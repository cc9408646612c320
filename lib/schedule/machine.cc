// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/machine.h"

#include <fmt/format.h>

#include <algorithm>

namespace echelon {

Cuts::Cuts(const Schedule& schedule, int blocks) {
  const auto add = [this](Slice s) {
    at_.push_back(s.begin);
    at_.push_back(s.end);
  };
  add(schedule.whole());
  for (int b = 0; b < blocks; ++b) add(schedule.whole().part(b, blocks));
  for (const Transfer& t : schedule.transfers()) add(t.slice);
  for (const GroupCall& call : schedule.calls())
    for (const Part& part : call.parts) add(part.slice);
  std::ranges::sort(at_);
  at_.erase(std::unique(at_.begin(), at_.end()), at_.end());
}

Machine::Machine(const Schedule& schedule, ech_collective collective, int size, int root)
    : schedule_(schedule),
      collective_(collective),
      size_(size),
      root_(root),
      cuts_(schedule, size),
      transfers_(schedule.steps()),
      calls_(schedule.steps()),
      expressions_(size),
      memory_(size, std::vector<Expression>(cuts_.count(), kNothing)),
      uses_(size, std::vector<Use>(cuts_.count())) {
  for (const Transfer& t : schedule.transfers()) transfers_[t.step].push_back(&t);
  for (const GroupCall& call : schedule.calls()) calls_[call.step].push_back(&call);
  for (int rank = 0; rank < size; ++rank)
    for (std::size_t i = 0; i < cuts_.count(); ++i)
      if (has_input(rank, i)) memory_[rank][i] = expressions_.input(rank);
}

bool Machine::in_block(int rank, std::size_t interval) const {
  return schedule_.whole().part(rank, size_).contains(cuts_.slice(interval));
}

bool Machine::has_input(int rank, std::size_t i) const {
  if (collective_ == ECH_ALLGATHER) return in_block(rank, i);
  return collective_ != ECH_BROADCAST || rank == root_;
}

std::string Machine::advance() {
  for (const Transfer* t : transfers_[step_])
    if (fault_.empty()) post(*t);
  for (const GroupCall* call : calls_[step_])
    if (fault_.empty()) post(*call);
  if (!fault_.empty()) return fault_;
  finish_step();
  ++step_;
  return "";
}

void Machine::fail(int rank, std::size_t i, const char* what) {
  const Slice s = cuts_.slice(i);
  if (fault_.empty())
    fault_ = fmt::format("step {}: rank {} {} units [{}, {})", step_, rank, what, s.begin, s.end);
}

Use& Machine::use(int rank, std::size_t i) {
  if (uses_[rank][i].idle()) touched_.emplace_back(rank, i);
  return uses_[rank][i];
}

void Machine::post(const Transfer& t) {
  const Range range = cuts_.range(t.slice);
  for (std::size_t i = range.begin; i < range.end && fault_.empty(); ++i) post(t, i);
}

void Machine::post(const Transfer& t, std::size_t i) {
  if (memory_[t.from][i] == kNothing) return fail(t.from, i, "sends but does not have");
  Use& source = use(t.from, i);
  if (source.written) return fail(t.from, i, "sends and overwrites");
  source.sent = true;
  Use& target = use(t.to, i);
  if (target.written) return fail(t.to, i, "is written twice in");
  if (target.in_call) return fail(t.to, i, "receives and has a group call read");
  t.action == Action::kCopy ? post_copy(t, i, target) : post_reduce(t, i, target);
}

void Machine::post_copy(const Transfer& t, std::size_t i, Use& target) {
  if (target.sum) return fail(t.to, i, "is written twice in");
  if (target.sent) return fail(t.to, i, "sends and overwrites");
  target.written = true;
  target.value = memory_[t.from][i];
}

void Machine::post_reduce(const Transfer& t, std::size_t i, Use& target) {
  if (memory_[t.to][i] == kNothing) return fail(t.to, i, "adds to but does not have");
  if (target.sum.value_or(t.slice) != t.slice)
    return fail(t.to, i, "adds two overlapping slices to");
  target.sum = t.slice;
  target.operands.emplace_back(t.from, memory_[t.from][i]);
}

void Machine::post(const GroupCall& call) {
  for (const Part& part : call.parts) {
    const Range range = cuts_.range(part.slice);
    for (std::size_t i = range.begin; i < range.end && fault_.empty(); ++i) post(call, part, i);
  }
}

void Machine::post(const GroupCall& call, const Part& part, std::size_t i) {
  const bool reduces = call.action != GroupAction::kAllgather;
  std::vector<Expression> operands;
  for (const int rank : call.group.ranks()) {
    const bool owns = rank == part.owner;
    const bool reads = reduces || owns;
    const bool writes = call.action == GroupAction::kAllreduce || owns == reduces;
    Use& mine = use(rank, i);
    if (mine.written || mine.sum || (writes && !mine.idle()))
      return fail(rank, i, "has a group call and more in");
    if (reads && memory_[rank][i] == kNothing) return fail(rank, i, "sends but does not have");
    if (reads) operands.push_back(memory_[rank][i]);
    mine.in_call = mine.in_call || reads;
    mine.written = writes;
  }
  const Expression value = expressions_.sum(std::move(operands));
  for (const int rank : call.group.ranks())
    if (uses_[rank][i].written) uses_[rank][i].value = value;
}

void Machine::finish_step() {
  for (const auto& [rank, i] : touched_) {
    Use& mine = uses_[rank][i];
    Expression& cell = memory_[rank][i];
    if (mine.sum) {
      mine.operands.emplace_back(rank, cell);
      std::ranges::stable_sort(mine.operands, {}, &std::pair<int, Expression>::first);
      std::vector<Expression> operands;
      for (const auto& [from, value] : mine.operands) operands.push_back(value);
      cell = expressions_.sum(std::move(operands));
    } else if (mine.written) {
      cell = mine.value;
    }
    mine = Use();
  }
  touched_.clear();
}

}  // namespace echelon
