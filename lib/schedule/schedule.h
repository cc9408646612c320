// SPDX-License-Identifier: Apache-2.0
// A Schedule says who sends what to whom, and when. It is a value: algorithms build it, verify()
// executes it symbolically, cost() counts it, print() shows it, the engine runs it.
//
// The buffer is divided into `units`; how many bytes a unit has is the engine's business. One
// transfer is one statement, so a send always has its receive.
//
// Meaning of time. A rank begins its part of step s+1 when its own part of step s is complete;
// there is no global barrier between steps. The transfers and group calls of one step are
// concurrent, and so the engine may rely on (verify.h checks it):
//  - copy: received straight into place. Nothing else in this step touches these units at the
//    receiver.
//  - reduce: received into scratch memory. All reductions into one slice of one rank in one step
//    are one sum, applied after the rank's own sends of this step from that slice are complete (so
//    two ranks may exchange a slice and both add). Its operands, the rank's own value among them,
//    are taken in the order of their ranks, so two ranks that add the same values get the same
//    bits. Two slices reduced into one rank in one step are equal or disjoint.
//  - group calls: nothing else in this step writes what they read, or touches what they write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "echelon/echelon.h"
#include "lib/base/group_action.h"

namespace echelon {

using Unit = std::uint64_t;

// A half-open range of units.
struct Slice {
  Unit begin = 0;
  Unit end = 0;

  // Part i of n nearly equal parts; they are disjoint, ordered, and cover *this.
  Slice part(Unit i, Unit n) const {
    const Unit length = end - begin;
    return {begin + at(length, i, n), begin + at(length, i + 1, n)};
  }
  Unit size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool overlaps(Slice o) const { return begin < o.end && o.begin < end; }
  bool contains(Slice o) const { return begin <= o.begin && o.end <= end; }
  friend bool operator==(Slice, Slice) = default;

 private:
  // Wide, because n may be as large as a number of units.
  static Unit at(Unit length, Unit i, Unit n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<Unit>(static_cast<Wide>(length) * i / n);
  }
};

// Ranks in ring order; indices wrap around in both directions.
class Group {
 public:
  Group() = default;
  explicit Group(std::vector<int> ranks) : ranks_(std::move(ranks)) {}
  static Group range(int size);  // 0, 1, ..., size-1

  int size() const { return static_cast<int>(ranks_.size()); }
  int wrap(int i) const { return (i % size() + size()) % size(); }
  int operator[](int i) const { return ranks_[wrap(i)]; }
  int index_of(int rank) const;  // -1 when not a member
  const std::vector<int>& ranks() const { return ranks_; }
  friend bool operator==(const Group&, const Group&) = default;

 private:
  std::vector<int> ranks_;
};

enum class Action { kCopy, kReduce };

struct Transfer {
  int step;
  int from, to;
  Slice slice;  // the same units at both ends
  Action action;
};

// A slice and the rank that holds (or shall hold) it.
struct Part {
  Slice slice;
  int owner;  // rank
  friend bool operator==(const Part&, const Part&) = default;
};

struct GroupCall {
  int step;
  GroupAction action;
  Group group;
  std::vector<Part> parts;  // disjoint, ordered by slice
};

// A label for a run of steps, for people.
struct Phase {
  std::string name;  // e.g. "reduce_scatter(host) by shm"
  int tier;
  int begin, end;     // steps
  std::string where;  // the tier's name
};

class Schedule {
 public:
  static constexpr int kEveryone = -1;

  // Keeps only what `viewer` takes part in.
  explicit Schedule(Unit units, int viewer = kEveryone) : units_(units), viewer_(viewer) {}

  void copy(int step, int from, int to, Slice s) { add({step, from, to, s, Action::kCopy}); }
  void reduce(int step, int from, int to, Slice s) { add({step, from, to, s, Action::kReduce}); }
  void copy(int step, int from, int to, const std::vector<Slice>& slices);
  void reduce(int step, int from, int to, const std::vector<Slice>& slices);
  void add(const Transfer& t);  // dropped when empty, or when the viewer is neither end
  // Dropped when it has no parts or fewer than two members, or when the viewer is none of them.
  void add(GroupCall call);
  void add(Phase phase) { phases_.push_back(std::move(phase)); }

  // Whether the viewer takes part in what `a` and `b` do.
  bool sees(int a, int b) const { return viewer_ == kEveryone || viewer_ == a || viewer_ == b; }

  Unit units() const { return units_; }
  Slice whole() const { return {0, units_}; }
  int viewer() const { return viewer_; }
  int steps() const { return steps_; }  // 1 + the largest step in use
  const std::vector<Transfer>& transfers() const { return transfers_; }
  const std::vector<GroupCall>& calls() const { return calls_; }
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  Unit units_;
  int viewer_;
  int steps_ = 0;
  std::vector<Transfer> transfers_;
  std::vector<GroupCall> calls_;
  std::vector<Phase> phases_;
};

}  // namespace echelon
