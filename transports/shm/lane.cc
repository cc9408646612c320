// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/lane.h"

#include <cassert>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"
#include "transports/shm/bell.h"
#include "transports/shm/copy.h"

namespace echelon::shm {

void Team::announce() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // bell.h, invariant 1
  for (int m = 0; m < size(); ++m) {
    BellLine& line = segments[m].bell();
    if (line.sleeping.load(std::memory_order_relaxed) != 0 && m != self)
      bell->ring(line, nonces[m]);
  }
}

Lane::Lane(Team& team, int index)
    : team_(team), index_(index), sources_(team.size()), shares_(team.size()) {
  for (const Segment& segment : team.segments) lines_.push_back(&segment.lane(index));
}

void Lane::start(const GroupWork& work) {
  assert(!busy_);
  work_ = work;
  busy_ = true;
  begin_ = end_;
  plan();
  ready_from_ = gather_from_ = 0;
}

// Shares and rounds. The same result on every member.
void Lane::plan() {
  const std::size_t n = shares_.size();
  total_ = 0;
  for (const GroupPart& part : work_.parts) total_ += part.bytes;
  variant_ = choose(work_.kind, total_, team_.size(), team_.thresholds);
  streaming_ = total_ >= team_.thresholds.stream && work_.input != work_.output;
  in_line_ = variant_ == Variant::kOneShot && total_ <= kInlineBytes;
  std::size_t largest = total_;
  const std::size_t slot = std::min(team_.shape.slot_bytes, team_.thresholds.block);
  if (variant_ == Variant::kOneShot) {
    block_ = slot;
  } else if (work_.kind == GroupKind::kAllreduce) {
    block_ = slot / n / kLine * kLine;
    const std::size_t units = (total_ + kLine - 1) / kLine;
    for (std::size_t o = 0; o < n; ++o)
      shares_[o] = {kAnyOwner, std::min(total_, units * o / n * kLine),
                    std::min(total_, units * (o + 1) / n * kLine)};
    largest = (units + n - 1) / n * kLine;
  } else {
    const bool reduces = work_.kind == GroupKind::kReduceScatter;
    block_ = reduces ? slot / n / kLine * kLine : slot;
    for (std::size_t o = 0; o < n; ++o) shares_[o] = {static_cast<int>(o), 0, 0};
    for (const GroupPart& part : work_.parts) shares_[part.owner].end += part.bytes;
    largest = 0;
    for (const Region& share : shares_) largest = std::max(largest, share.bytes());
  }
  end_ = begin_ + std::max<std::uint64_t>(1, (largest + block_ - 1) / block_);
}

// What `owner` owns in `round`; everything of the round in a one-shot call.
Region Lane::region(int owner, std::uint64_t round) const {
  const Region share =
      variant_ == Variant::kOneShot ? Region{kAnyOwner, 0, total_} : shares_[owner];
  const std::size_t begin = std::min(share.end, share.begin + (round - begin_) * block_);
  return {share.owner, begin, std::min(share.end, begin + block_)};
}

Lane::Step Lane::next() {
  if (!busy_) return Step::kNone;
  if (staged_ < end_ && staged_ <= gathered_ + 1 && all_finished(staged_ - 1)) return Step::kStage;
  if (reduced_ < staged_ && all_ready()) return Step::kReduce;
  if (gathered_ < reduced_ && part_ready()) return Step::kGather;
  return gathered_ == end_ ? Step::kEnd : Step::kNone;
}

bool Lane::advance() {
  switch (next()) {
    case Step::kNone:
      return false;
    case Step::kStage:
      stage();
      return true;
    case Step::kReduce:
      reduce();
      return true;
    case Step::kGather:
      gather();
      return true;
    case Step::kEnd:
      busy_ = false;
      return true;
  }
  return false;
}

bool Lane::all_finished(std::uint64_t rounds) {
  if (static_cast<std::int64_t>(known_finished_ - rounds) >= 0) return true;
  std::uint64_t least = gathered_;
  for (const LaneLines* line : lines_)
    least = std::min(least, line->done.finished.load(std::memory_order_acquire));
  known_finished_ = least;
  return least >= rounds;
}

// Whether everything to reduce in this round is there.
bool Lane::all_ready() {
  if (work_.kind == GroupKind::kAllgather && variant_ != Variant::kOneShot) return true;
  if (region(team_.self, reduced_).empty() && variant_ != Variant::kOneShot) return true;
  for (; ready_from_ < team_.size(); ++ready_from_) {
    if (ready_from_ == team_.self) continue;
    const auto& flag = lines(ready_from_).ready[reduced_ & 1].ready;
    if (flag.load(std::memory_order_acquire) != reduced_ + 1) return false;
  }
  return true;
}

// Whether the next owner's part, or the end of the round, is there.
bool Lane::part_ready() {
  if (variant_ == Variant::kOneShot || work_.kind == GroupKind::kReduceScatter) return true;
  for (; gather_from_ < team_.size(); ++gather_from_) {
    const int owner = (team_.self + gather_from_) % team_.size();
    if (region(owner, gathered_).empty()) continue;
    if (owner == team_.self) return true;
    const LaneLines& line = lines(owner);
    const auto& flag =
        work_.kind == GroupKind::kAllgather ? line.ready[gathered_ & 1].ready : line.done.reduced;
    return flag.load(std::memory_order_acquire) >= gathered_ + 1;
  }
  return true;
}

std::byte* Lane::staging(std::uint64_t round) {
  const int parity = static_cast<int>(round & 1);
  if (in_line_) return lines(team_.self).ready[parity].payload;
  return team_.segments[team_.self].input_slot(index_, parity);
}

const std::byte* Lane::staged(int member, std::uint64_t round) const {
  const int parity = static_cast<int>(round & 1);
  if (in_line_) return lines(member).ready[parity].payload;
  return team_.segments[member].input_slot(index_, parity);
}

void Lane::stage() {
  std::byte* slot = staging(staged_);
  const auto put = [&](const Region& from, std::size_t at) {
    pieces(work_.parts, from, [&](const Piece& piece) {
      copy_block(slot + at + piece.position, work_.input + piece.input_offset, piece.bytes);
    });
    moved_ += from.bytes();
  };
  if (variant_ == Variant::kOneShot || work_.kind == GroupKind::kAllgather) {
    put(region(team_.self, staged_), 0);
  } else {
    for (int owner = 0; owner < team_.size(); ++owner)
      if (owner != team_.self) put(region(owner, staged_), owner * block_);
  }
  lines(team_.self).ready[staged_ & 1].ready.store(staged_ + 1, std::memory_order_release);
  ++staged_;
  team_.announce();
}

void Lane::reduce() {
  const bool one_shot = variant_ == Variant::kOneShot;
  ready_from_ = 0;
  if (one_shot) {
    reduce_region(region(team_.self, reduced_), 0);
    if (reduced_ == begin_) known_finished_ = std::max(known_finished_, begin_);  // invariant 3
    ++reduced_;
    finish_round();
    return;
  }
  if (work_.kind != GroupKind::kAllgather) reduce_region(region(team_.self, reduced_), team_.self);
  ++reduced_;
  if (work_.kind == GroupKind::kAllreduce) {
    lines(team_.self).done.reduced.store(reduced_, std::memory_order_release);
    team_.announce();
  }
}

// Reduces `region` of all members, which is at `slot_index` blocks in their slots.
void Lane::reduce_region(const Region& region, int slot_index) {
  const bool shown = variant_ == Variant::kStaged && work_.kind == GroupKind::kAllreduce;
  const std::size_t element = size_of(work_.dtype);
  const std::size_t at = slot_index * block_;
  std::byte* result = team_.segments[team_.self].result_slot(index_, int(reduced_ & 1));
  pieces(work_.parts, region, [&](const Piece& piece) {
    for (int m = 0; m < team_.size(); ++m)
      sources_[m] = m == team_.self ? work_.input + piece.input_offset
                                    : staged(m, reduced_) + at + piece.position;
    std::byte* user = work_.output + piece.output_offset;
    std::byte* out = shown || streaming_ ? result + piece.position : user;
    echelon::reduce(work_.dtype, work_.op, sources_, out, piece.bytes / element);
    deliver(user, out, piece.bytes, streaming_);
  });
  const std::size_t taken = region.bytes() * (sources_.size() - 1);
  moved_ += taken;
  team_.bytes_taken += taken;
}

void Lane::gather() {
  if (gather_from_ < team_.size() && variant_ != Variant::kOneShot &&
      work_.kind != GroupKind::kReduceScatter) {
    gather_from((team_.self + gather_from_) % team_.size());
    if (++gather_from_ < team_.size()) return;
  }
  finish_round();
  team_.announce();
}

void Lane::gather_from(int owner) {
  const bool own = owner == team_.self;
  const bool reduced = work_.kind == GroupKind::kAllreduce;
  if (own && reduced) return;
  const Region from = region(owner, gathered_);
  const int parity = static_cast<int>(gathered_ & 1);
  const std::byte* slot = reduced ? team_.segments[owner].result_slot(index_, parity)
                                  : team_.segments[owner].input_slot(index_, parity);
  pieces(work_.parts, from, [&](const Piece& piece) {
    const std::byte* in = own ? work_.input + piece.input_offset : slot + piece.position;
    deliver(work_.output + piece.output_offset, in, piece.bytes, streaming_);
  });
  moved_ += from.bytes();
  if (!own) team_.bytes_taken += from.bytes();
}

void Lane::finish_round() {
  gather_from_ = 0;
  ++gathered_;
  lines(team_.self).done.finished.store(gathered_, std::memory_order_release);
}

}  // namespace echelon::shm
