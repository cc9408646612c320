// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/schedule/expressions.h"

namespace echelon {
namespace {

// A range of intervals between neighbouring cuts.
struct Range {
  std::size_t begin, end;
};

// The buffer, cut wherever a slice begins or ends.
class Cuts {
 public:
  Cuts(const Schedule& schedule, int blocks) {
    for (int b = 0; b <= blocks; ++b) at_.push_back(schedule.whole().part(b, blocks).begin);
    at_.back() = schedule.units();
    for (const Transfer& t : schedule.transfers()) add(t.slice);
    for (const GroupCall& call : schedule.calls())
      for (const Part& part : call.parts) add(part.slice);
    std::ranges::sort(at_);
    at_.erase(std::unique(at_.begin(), at_.end()), at_.end());
  }

  std::size_t count() const { return at_.size() - 1; }
  Slice slice(std::size_t i) const { return {at_[i], at_[i + 1]}; }
  Range range(Slice s) const { return {index(s.begin), index(s.end)}; }

 private:
  void add(Slice s) {
    at_.push_back(s.begin);
    at_.push_back(s.end);
  }
  std::size_t index(Unit u) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(at_, u) - at_.begin());
  }

  std::vector<Unit> at_;
};

std::string malformed(const Schedule& schedule, const Transfer& t, int size) {
  const auto is_rank = [size](int r) { return 0 <= r && r < size; };
  if (!is_rank(t.from) || !is_rank(t.to) || t.from == t.to || t.step < 0 || t.slice.empty() ||
      t.slice.begin > t.slice.end || !schedule.whole().contains(t.slice))
    return fmt::format("malformed transfer: step {} from {} to {} units [{}, {})", t.step, t.from,
                       t.to, t.slice.begin, t.slice.end);
  return "";
}

std::string malformed(const Schedule& schedule, const GroupCall& call, int size) {
  const auto fault = [&call](const char* what) {
    return fmt::format("malformed group call: step {}: {}", call.step, what);
  };
  if (call.step < 0) return fault("negative step");
  std::set<int> members;
  for (const int rank : call.group.ranks())
    if (rank < 0 || rank >= size || !members.insert(rank).second) return fault("bad group");
  Unit end = 0;
  for (const Part& part : call.parts) {
    if (!members.contains(part.owner)) return fault("an owner is not a member");
    if (part.slice.empty() || part.slice.begin < end || !schedule.whole().contains(part.slice))
      return fault("parts are not disjoint and in order");
    end = part.slice.end;
  }
  return "";
}

std::string malformed(const Schedule& schedule, int size) {
  if (schedule.viewer() != Schedule::kEveryone) return "only one viewer's part of the schedule";
  for (const Transfer& t : schedule.transfers())
    if (std::string fault = malformed(schedule, t, size); !fault.empty()) return fault;
  for (const GroupCall& call : schedule.calls())
    if (std::string fault = malformed(schedule, call, size); !fault.empty()) return fault;
  return "";
}

// What happens to one interval of one rank's memory in one step.
struct Use {
  bool sent = false;
  bool written = false;                              // by a copy or a group call
  bool in_call = false;                              // read by a group call
  std::optional<Slice> sum;                          // the slice that is reduced into it
  std::vector<std::pair<int, Expression>> operands;  // of that sum: rank, value
  Expression value = kNothing;                       // after the step, when written

  bool idle() const { return !sent && !written && !in_call && !sum; }
};

class Machine {
 public:
  Machine(const Schedule& schedule, ech_collective collective, int size, int root)
      : schedule_(schedule),
        collective_(collective),
        size_(size),
        root_(root),
        cuts_(schedule, size),
        expressions_(size),
        memory_(size, std::vector<Expression>(cuts_.count(), kNothing)),
        uses_(size, std::vector<Use>(cuts_.count())) {
    for (int rank = 0; rank < size; ++rank)
      for (std::size_t i = 0; i < cuts_.count(); ++i)
        if (has_input(rank, i)) memory_[rank][i] = expressions_.input(rank);
  }

  std::string run();

 private:
  bool in_block(int rank, std::size_t i) const {
    return schedule_.whole().part(rank, size_).contains(cuts_.slice(i));
  }
  bool has_input(int rank, std::size_t i) const {
    if (collective_ == ECH_ALLGATHER) return in_block(rank, i);
    return collective_ != ECH_BROADCAST || rank == root_;
  }

  void post(const Transfer& t);
  void post(const GroupCall& call);
  void post(const GroupCall& call, const Part& part, std::size_t i);
  Use& use(int rank, std::size_t i);
  void fail(int step, int rank, std::size_t i, const char* what);
  void finish_step();
  std::string result() const;
  std::string result(int rank, std::size_t i) const;

  const Schedule& schedule_;
  const ech_collective collective_;
  const int size_, root_;
  const Cuts cuts_;
  Expressions expressions_;
  std::vector<std::vector<Expression>> memory_;  // [rank][interval], before the step
  std::vector<std::vector<Use>> uses_;           // [rank][interval], of the step
  std::vector<std::pair<int, std::size_t>> touched_;
  std::string fault_;  // the first one
};

void Machine::fail(int step, int rank, std::size_t i, const char* what) {
  const Slice s = cuts_.slice(i);
  if (fault_.empty())
    fault_ = fmt::format("step {}: rank {} {} units [{}, {})", step, rank, what, s.begin, s.end);
}

Use& Machine::use(int rank, std::size_t i) {
  if (uses_[rank][i].idle()) touched_.emplace_back(rank, i);
  return uses_[rank][i];
}

void Machine::post(const Transfer& t) {
  const Range range = cuts_.range(t.slice);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const Expression value = memory_[t.from][i];
    if (value == kNothing) return fail(t.step, t.from, i, "sends but does not have");
    Use& source = use(t.from, i);
    if (source.written) return fail(t.step, t.from, i, "sends and overwrites");
    source.sent = true;
    Use& target = use(t.to, i);
    if (target.written) return fail(t.step, t.to, i, "is written twice in");
    if (target.in_call) return fail(t.step, t.to, i, "receives and has a group call read");
    if (t.action == Action::kCopy) {
      if (target.sum) return fail(t.step, t.to, i, "is written twice in");
      if (target.sent) return fail(t.step, t.to, i, "sends and overwrites");
      target.written = true;
      target.value = value;
      continue;
    }
    if (memory_[t.to][i] == kNothing) return fail(t.step, t.to, i, "adds to but does not have");
    if (target.sum.value_or(t.slice) != t.slice)
      return fail(t.step, t.to, i, "adds two overlapping slices to");
    target.sum = t.slice;
    target.operands.emplace_back(t.from, value);
  }
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
      return fail(call.step, rank, i, "has a group call and more in");
    if (reads && memory_[rank][i] == kNothing)
      return fail(call.step, rank, i, "sends but does not have");
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

std::string Machine::run() {
  std::vector<std::vector<const Transfer*>> transfers(schedule_.steps());
  std::vector<std::vector<const GroupCall*>> calls(schedule_.steps());
  for (const Transfer& t : schedule_.transfers()) transfers[t.step].push_back(&t);
  for (const GroupCall& call : schedule_.calls()) calls[call.step].push_back(&call);
  for (int step = 0; step < schedule_.steps(); ++step) {
    for (const Transfer* t : transfers[step])
      if (fault_.empty()) post(*t);
    for (const GroupCall* call : calls[step])
      if (fault_.empty()) post(*call);
    if (!fault_.empty()) return fault_;
    finish_step();
  }
  return result();
}

std::string Machine::result() const {
  for (std::size_t i = 0; i < cuts_.count(); ++i)
    for (int rank = 0; rank < size_; ++rank)
      if (std::string fault = result(rank, i); !fault.empty()) {
        const Slice s = cuts_.slice(i);
        return fmt::format("{}: rank {} {} in units [{}, {})", name(collective_), rank, fault,
                           s.begin, s.end);
      }
  return "";
}

// What is wrong with one interval in the end.
std::string Machine::result(int rank, std::size_t i) const {
  const Expression value = memory_[rank][i];
  switch (collective_) {
    case ECH_BROADCAST:
      return value == expressions_.input(root_) ? "" : "does not have the root's input";
    case ECH_ALLGATHER:
      for (int owner = 0; owner < size_; ++owner)
        if (in_block(owner, i) && value != expressions_.input(owner))
          return fmt::format("does not have the input of rank {}", owner);
      return "";
    case ECH_REDUCE_SCATTER:
      if (!in_block(rank, i)) return "";
      break;
    case ECH_REDUCE:
      if (rank != root_) return "";
      break;
    default:
      if (expressions_.complete(value) && value != memory_[0][i])
        return "has other bits than rank 0";
  }
  if (expressions_.complete(value)) return "";
  const auto& counts = expressions_.counts(value);
  const auto wrong = std::ranges::find_if(counts, [](auto k) { return k != 1; });
  return fmt::format("has the input of rank {} {} times", wrong - counts.begin(), *wrong);
}

}  // namespace

std::string verify(const Schedule& schedule, ech_collective collective, int size, int root) {
  if (collective == ECH_BARRIER) return "a barrier has no schedule";
  if (size < 1 || root < 0 || root >= size)
    return fmt::format("no root {} in {} ranks", root, size);
  if (std::string fault = malformed(schedule, size); !fault.empty()) return fault;
  return Machine(schedule, collective, size, root).run();
}

}  // namespace echelon
