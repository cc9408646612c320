// SPDX-License-Identifier: Apache-2.0
// Executes a schedule step by step on expressions: what verify() and the pictures are made with.
//
// Not thread-safe. Invariant: between steps uses_ is idle everywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/schedule/expressions.h"
#include "lib/schedule/schedule.h"

namespace echelon {

// A range of intervals between neighbouring cuts.
struct Range {
  std::size_t begin, end;
};

// The buffer, cut wherever a slice or one of `blocks` equal blocks begins or ends.
class Cuts {
 public:
  Cuts(const Schedule& schedule, int blocks);

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
  // `schedule` is everybody's and well-formed, and outlives this.
  Machine(const Schedule& schedule, ech_collective collective, int size, int root);

  int step() const { return step_; }  // the next one
  bool done() const { return step_ == schedule_.steps(); }

  // Executes the next step. "" or what is wrong with it, in one line.
  std::string advance();

  const Cuts& cuts() const { return cuts_; }
  const Expressions& expressions() const { return expressions_; }
  Expression at(int rank, std::size_t interval) const { return memory_[rank][interval]; }

  // Whether the interval is in block `rank` of `size` equal ones.
  bool in_block(int rank, std::size_t interval) const;

 private:
  void post(const Transfer& t);
  void post(const Transfer& t, std::size_t i);
  void post_copy(const Transfer& t, std::size_t i, Use& target);
  void post_reduce(const Transfer& t, std::size_t i, Use& target);
  void post(const GroupCall& call);
  void post(const GroupCall& call, const Part& part, std::size_t i);
  bool has_input(int rank, std::size_t i) const;
  Use& use(int rank, std::size_t i);
  void fail(int rank, std::size_t i, const char* what);
  void finish_step();

  // Constant after construction.
  const Schedule& schedule_;
  const ech_collective collective_;
  const int size_, root_;
  const Cuts cuts_;
  std::vector<std::vector<const Transfer*>> transfers_;  // [step]
  std::vector<std::vector<const GroupCall*>> calls_;     // [step]

  Expressions expressions_;
  int step_ = 0;
  std::vector<std::vector<Expression>> memory_;       // [rank][interval], before the step
  std::vector<std::vector<Use>> uses_;                // [rank][interval], of the step
  std::vector<std::pair<int, std::size_t>> touched_;  // those that are not idle
  std::string fault_;                                 // the first one
};

}  // namespace echelon
