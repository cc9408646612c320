// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include "lib/base/error.h"
#include "lib/engine/interval_set.h"
#include "lib/engine/program.h"

namespace echelon {
namespace {

bool overlaps_any(const std::vector<Hop>& messages, Slice slice) {
  return std::ranges::any_of(messages, [&](const Hop& m) { return m.slice.overlaps(slice); });
}

class Compiler {
 public:
  Compiler(const Schedule& schedule, const Goal& goal, bool split_blocks)
      : schedule_(schedule), goal_(goal) {
    program_.units = schedule.units();
    program_.phases = schedule.phases();
    const bool blockwise =
        goal.collective == ECH_REDUCE_SCATTER || goal.collective == ECH_ALLGATHER;
    program_.blocks = blockwise ? goal.size : 1;
    piece_ = split_blocks ? program_.units / program_.blocks : program_.units;
  }

  Program run() {
    collect();
    one_call_ = is_one_call();
    if (goal_.collective == ECH_ALLGATHER && !one_call_) copy_own_block();
    for (auto& [step, items] : items_) {
      add_step(items);
      program_.steps.back().phase = phase_of(step);
    }
    finish();
    return std::move(program_);
  }

 private:
  struct Items {
    std::vector<Hop> sends, receives, incoming;
    std::vector<const GroupCall*> calls;
  };

  // Cuts at block boundaries where that was asked for.
  template <typename Use>
  void for_pieces(Slice slice, Use use) const {
    while (!slice.empty()) {
      const Unit end = std::min(slice.end, (slice.begin / piece_ + 1) * piece_);
      use(Slice{slice.begin, end});
      slice.begin = end;
    }
  }

  void collect() {
    std::map<int, std::uint32_t> sent, received;  // messages so far, by peer
    for (const Transfer& t : schedule_.transfers()) {
      if (t.from != goal_.rank && t.to != goal_.rank) continue;
      Items& items = items_[t.step];
      for_pieces(t.slice, [&](Slice piece) {
        if (t.from == goal_.rank) {
          items.sends.push_back(
              {t.to, piece, sent[t.to]++, Place::kInput, t.action == Action::kCopy});
          return;
        }
        auto& list = t.action == Action::kCopy ? items.receives : items.incoming;
        list.push_back(
            {t.from, piece, received[t.from]++, Place::kWork, t.action == Action::kCopy});
      });
      program_.needs_messages = true;
    }
    for (const GroupCall& call : schedule_.calls())
      if (call.group.index_of(goal_.rank) >= 0) items_[call.step].calls.push_back(&call);
  }

  // Whether all ranks do this and nothing else, so that they all read their input.
  bool is_one_call() const {
    if (items_.size() != 1 || program_.needs_messages) return false;
    const auto& calls = items_.begin()->second.calls;
    return calls.size() == 1 && calls.front()->group.size() == goal_.size;
  }

  void copy_own_block() {
    Step step;
    step.local_copies.push_back(result_block());
    written_.add(result_block());
    program_.steps.push_back(std::move(step));
  }

  std::int16_t phase_of(int step) const {
    const auto at = std::ranges::find_if(
        program_.phases, [&](const Phase& p) { return p.begin <= step && step < p.end; });
    return at == program_.phases.end() ? Step::kNoPhase
                                       : static_cast<std::int16_t>(at - program_.phases.begin());
  }

  Slice result_block() const { return Slice{0, program_.units}.part(goal_.rank, goal_.size); }

  // Where `slice` is now; brings it together in work when it is in both places.
  Place locate(Slice slice, Step& step) {
    if (!written_.touches(slice)) return Place::kInput;
    for (Slice gap : written_.missing(slice)) {
      step.local_copies.push_back(gap);
      write(gap);
    }
    return Place::kWork;
  }

  void write(Slice slice) {
    written_.add(slice);
    program_.writes_work = true;
    const bool own = goal_.collective != ECH_REDUCE_SCATTER || result_block().contains(slice);
    if (!own) program_.work_outside_own_block = true;
  }

  void add_step(Items& items) {
    Step step;
    for (Hop& m : items.sends) m.place = locate(m.slice, step);
    add_merges(items, step);
    for (const GroupCall* call : items.calls) add_call(*call, step);
    step.sends = std::move(items.sends);
    step.receives = std::move(items.receives);
    for (Merge& m : step.merges) m.after_sends = overlaps_any(step.sends, m.slice);
    for (const Hop& m : step.receives) write(m.slice);
    for (const Merge& m : step.merges) write(m.slice);
    for (const Call& call : step.calls) write_call(call);
    program_.steps.push_back(std::move(step));
  }

  void add_merges(Items& items, Step& step) {
    std::ranges::stable_sort(items.incoming, {},
                             [](const Hop& m) { return std::pair(m.slice.begin, m.peer); });
    for (const Hop& m : items.incoming) {
      const auto index = static_cast<std::uint32_t>(step.incoming.size());
      const bool again = !step.merges.empty() && step.merges.back().slice == m.slice;
      if (!again) {
        if (!step.merges.empty() && step.merges.back().slice.overlaps(m.slice))
          throw Error(ECH_ERR_INTERNAL, "a schedule reduces overlapping slices in one step");
        step.merges.push_back({m.slice, locate(m.slice, step), false, index, index, 0});
      }
      step.merges.back().end = index + 1;
      if (m.peer < goal_.rank) ++step.merges.back().own_index;
      step.incoming.push_back(m);
    }
  }

  void add_call(const GroupCall& call, Step& step) {
    if (!step.calls.empty())
      throw Error(ECH_ERR_INTERNAL, "a schedule has two group calls of one rank in one step");
    const std::vector<int>& ranks = call.group.ranks();
    std::unordered_map<int, int> member;  // by rank
    for (std::size_t i = 0; i < ranks.size(); ++i) member[ranks[i]] = static_cast<int>(i);
    Call mine{call.action, member.at(goal_.rank), call.group.size(), {}, Place::kWork};
    for (const Part& part : call.parts) {
      const int owner = member.at(part.owner);
      for_pieces(part.slice, [&](Slice piece) { mine.parts.push_back({piece, owner}); });
    }
    mine.place = locate_all(mine, step);
    step.calls.push_back(std::move(mine));
  }

  // All that the call reads from this rank is in one place. The offsets of blocks differ between
  // input and work, and members read each other's memory at their own offsets: in an allgather of
  // blocks all say work, where the owners have their parts, also who owns nothing.
  Place locate_all(const Call& call, Step& step) {
    const bool gathers_blocks =
        program_.blocks > 1 && call.action == GroupAction::kAllgather && !one_call_;
    const auto reads = [&](const Part& part) {
      return call.action != GroupAction::kAllgather || part.owner == call.self;
    };
    const bool in_work = std::ranges::any_of(
        call.parts, [&](const Part& part) { return reads(part) && written_.touches(part.slice); });
    if (!in_work && !gathers_blocks) return Place::kInput;
    for (const Part& part : call.parts) {
      if (!reads(part)) continue;
      for (Slice gap : written_.missing(part.slice)) {
        step.local_copies.push_back(gap);
        write(gap);
      }
    }
    return Place::kWork;
  }

  void write_call(const Call& call) {
    for (const Part& part : call.parts) {
      const bool mine = call.action != GroupAction::kReduceScatter || part.owner == call.self;
      if (mine) write(part.slice);
    }
  }

  // What of the result was never written is the rank's own input.
  void finish() {
    const Slice result = result_of(goal_, program_.units);
    Step last;
    for (Slice gap : written_.missing(result))
      for_pieces(gap, [&](Slice piece) { last.local_copies.push_back(piece); });
    if (!last.local_copies.empty()) program_.steps.push_back(std::move(last));
    for (const Step& step : program_.steps)
      program_.calls += static_cast<std::uint32_t>(step.calls.size());
    program_.one_call = one_call_ && program_.steps.size() == 1 && takes_whole_blocks();
  }

  bool takes_whole_blocks() const {
    const Step& only = program_.steps.front();
    const Unit block = program_.units / program_.blocks;
    return only.local_copies.empty() &&
           std::ranges::all_of(only.calls.front().parts, [&](const Part& part) {
             return part.slice.begin % block == 0 && part.slice.size() == block;
           });
  }

  const Schedule& schedule_;
  const Goal goal_;
  Unit piece_ = 1;
  std::map<int, Items> items_;  // by step
  bool one_call_ = false;
  IntervalSet written_;
  Program program_;
};

}  // namespace

Slice result_of(const Goal& goal, Unit units) {
  const Slice whole{0, units};
  if (goal.collective == ECH_REDUCE_SCATTER) return whole.part(goal.rank, goal.size);
  if (goal.collective == ECH_REDUCE && goal.rank != goal.root) return {};
  return whole;
}

Program compile(const Schedule& schedule, const Goal& goal, bool split_blocks) {
  return Compiler(schedule, goal, split_blocks).run();
}

}  // namespace echelon
