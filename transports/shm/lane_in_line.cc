// SPDX-License-Identifier: Apache-2.0
// Calls in line, whose bytes fit beside the flags, and short allreduces, by the slots: one round
// each, invariants 3 and 4 of lane.h.
#include <algorithm>
#include <cstring>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"
#include "transports/shm/lane.h"

namespace echelon::shm {

// Nothing, where one-shot calls are not wanted even for what fits.
std::size_t Lane::largest_in_line(int members, const Thresholds& thresholds) {
  const Question question{GroupAction::kAllreduce, kInlineBytes, members, true};
  return choose(question, thresholds) == Variant::kOneShot ? kInlineBytes : 0;
}

// Nothing is read in place, by the kernel or in several rounds then.
std::size_t Lane::largest_in_slot() const {
  const std::size_t one_shot = team_.size() <= 2 ? thresholds_.one_shot_pair : thresholds_.one_shot;
  const std::size_t other = std::min(thresholds_.direct, thresholds_.read);
  const std::size_t slot = std::min(thresholds_.block, team_.segments[0].shape().slot_bytes);
  return std::min({kShortBytes, one_shot, other == 0 ? 0 : other - 1, slot / kLine * kLine});
}

// A member shows its own part of an allgather, and all of a reduce-scatter.
std::size_t Lane::shown_bytes() const {
  return work_.action == GroupAction::kReduceScatter ? total_ : largest_share();
}

// Not of an allreduce, where every member shows to all and awaits all.
Lane::RoleInLine Lane::role_in_line() const {
  const int owners = this->owners(), own = shares_[team_.self].empty() ? 0 : 1;
  RoleInLine role;
  role.meets = owners == team_.size();
  if (work_.action == GroupAction::kAllgather) {
    role.shows = own == 1;
    role.awaits = Awaited::kOwners;
    role.knows = owners - own == team_.size() - 1;
  } else {
    role.shows = owners - own > 0;
    role.awaits = own == 1 ? Awaited::kAll : Awaited::kNobody;
    role.knows = own == 1;
  }
  return role;
}

bool Lane::advance_in_line() {
  const bool staged = staged_ == begin_ && all_finished(begin_ - 1);
  if (staged) stage_in_line();
  const bool complete = staged_ != begin_ && awaited_ready();
  // After that look, since its fence waits until our line has come from who read it last: theirs
  // comes meanwhile.
  if (staged && (role_.meets || !complete)) team_.announce(bell_);
  if (!complete) return staged;
  take_in_line();
  gathered_ = ++reduced_;
  if (role_.knows) known_finished_ = std::max(known_finished_, begin_);  // invariant 3
  lines(team_.self).done.finished.store(gathered_, std::memory_order_release);
  if (role_.meets)
    team_.wake(bell_);
  else
    team_.announce(bell_);
  busy_ = false;
  return true;
}

bool Lane::owners_ready() {
  for (; ready_from_ < team_.size(); ++ready_from_) {
    const bool awaited = ready_from_ != team_.self && !shares_[ready_from_].empty();
    if (awaited && !is_ready(ready_from_, reduced_)) return false;
  }
  return true;
}

// Where `member` shows what it has of a round.
std::byte* Lane::payload(int member, std::uint64_t round) const {
  if (in_slot_) return team_.segments[member].input_slot(index_, parity(round));
  return lines(member).ready[parity(round)].payload;
}

void Lane::stage_in_line() {
  ReadyLine& line = lines(team_.self).ready[parity(staged_)];
  std::byte* const shown = payload(team_.self, staged_);
  if (work_.parts.size() == 1) {
    const GroupPart& part = work_.parts[0];
    std::memcpy(shown, work_.input + part.input_offset, part.bytes);
  } else {
    const int owner = work_.action == GroupAction::kAllgather ? team_.self : kAnyOwner;
    pieces(work_.parts, {owner, 0, kShortBytes}, [&](const Piece& piece) {
      std::memcpy(shown + piece.position, work_.input + piece.input_offset, piece.bytes);
    });
  }
  line.ready.store(flag(staged_++), std::memory_order_release);
}

void Lane::take_in_line() {
  if (work_.action == GroupAction::kAllreduce) return reduce_in_line(work_.parts[0], 0);
  if (work_.action == GroupAction::kAllgather) return gather_in_line();
  std::size_t at = 0;
  for (const GroupPart& part : work_.parts) {
    if (part.owner == team_.self && part.bytes > 0) reduce_in_line(part, at);
    at += part.bytes;
  }
}

// Our own operand is taken from where it came from: the others are reading our line.
void Lane::reduce_in_line(const GroupPart& part, std::size_t at) {
  for (int m = 0; m < team_.size(); ++m) sources_[m] = payload(m, reduced_) + at;
  sources_[team_.self] = work_.input + part.input_offset;
  echelon::reduce(work_.dtype, work_.op, sources_, work_.output + part.output_offset,
                  elements_in(part.bytes, work_.dtype));
  team_.bytes_taken += part.bytes * (sources_.size() - 1);
}

void Lane::gather_in_line() {
  for (int owner = 0; owner < team_.size(); ++owner) {
    const std::byte* const shown = payload(owner, reduced_);
    const bool own = owner == team_.self;
    pieces(work_.parts, shares_[owner], [&](const Piece& piece) {
      const std::byte* in = own ? work_.input + piece.input_offset : shown + piece.position;
      std::byte* const out = work_.output + piece.output_offset;
      if (in != out) std::memcpy(out, in, piece.bytes);
    });
    if (!own) team_.bytes_taken += shares_[owner].bytes();
  }
}

}  // namespace echelon::shm
