// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/schedule/machine.h"

namespace echelon {
namespace {

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

// What the ranks should have in the end.
class Goal {
 public:
  Goal(ech_collective collective, int size, int root)
      : collective_(collective), size_(size), root_(root) {}

  // "" or what is wrong.
  std::string check(const Machine& machine) const;

 private:
  std::string check(const Machine& machine, int rank, std::size_t i) const;
  std::string check_sum(const Machine& machine, int rank, std::size_t i) const;

  ech_collective collective_;
  int size_, root_;
};

std::string Goal::check(const Machine& machine) const {
  for (std::size_t i = 0; i < machine.cuts().count(); ++i)
    for (int rank = 0; rank < size_; ++rank)
      if (std::string fault = check(machine, rank, i); !fault.empty()) {
        const Slice s = machine.cuts().slice(i);
        return fmt::format("{}: rank {} {} in units [{}, {})", name(collective_), rank, fault,
                           s.begin, s.end);
      }
  return "";
}

std::string Goal::check(const Machine& machine, int rank, std::size_t i) const {
  const Expression value = machine.at(rank, i);
  switch (collective_) {
    case ECH_BROADCAST:
      return value == machine.expressions().input(root_) ? "" : "does not have the root's input";
    case ECH_ALLGATHER:
      for (int owner = 0; owner < size_; ++owner)
        if (machine.in_block(owner, i) && value != machine.expressions().input(owner))
          return fmt::format("does not have the input of rank {}", owner);
      return "";
    case ECH_REDUCE_SCATTER:
      return machine.in_block(rank, i) ? check_sum(machine, rank, i) : "";
    case ECH_REDUCE:
      return rank == root_ ? check_sum(machine, rank, i) : "";
    default:
      return check_sum(machine, rank, i);
  }
}

std::string Goal::check_sum(const Machine& machine, int rank, std::size_t i) const {
  const Expression value = machine.at(rank, i);
  if (!machine.expressions().complete(value)) {
    const auto& counts = machine.expressions().counts(value);
    const auto wrong = std::ranges::find_if(counts, [](auto k) { return k != 1; });
    return fmt::format("has the input of rank {} {} times", wrong - counts.begin(), *wrong);
  }
  const bool alike = collective_ != ECH_ALLREDUCE || value == machine.at(0, i);
  return alike ? "" : "has other bits than rank 0";
}

}  // namespace

std::string verify(const Schedule& schedule, ech_collective collective, int size, int root) {
  if (collective == ECH_BARRIER) return "a barrier has no schedule";
  if (size < 1 || root < 0 || root >= size)
    return fmt::format("no root {} in {} ranks", root, size);
  if (std::string fault = malformed(schedule, size); !fault.empty()) return fault;
  Machine machine(schedule, collective, size, root);
  while (!machine.done())
    if (std::string fault = machine.advance(); !fault.empty()) return fault;
  return Goal(collective, size, root).check(machine);
}

}  // namespace echelon
