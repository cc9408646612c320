// SPDX-License-Identifier: Apache-2.0
// What a lane does when: planning a call, and the conditions of each step.
#include "transports/shm/lane.h"

#include <algorithm>
#include <cassert>

namespace echelon::shm {

Lane::Lane(Team& team, Bell& bell, const Thresholds& thresholds, int index)
    : team_(team),
      bell_(bell),
      thresholds_(thresholds),
      index_(index),
      in_line_bytes_(largest_in_line(team.size(), thresholds)),
      in_slot_bytes_(largest_in_slot()),
      sources_(team.size()),
      shares_(team.size()),
      stores_trial_(index, team.known.stores),
      reading_trial_(index, team.known.reading),
      results_trial_(index, team.known.results) {
  for (const Segment& segment : team.segments) lines_.push_back(&segment.lane(index));
}

// Decides also whether by the slots.
bool Lane::fits_in_line(std::size_t bytes) {
  in_slot_ = bytes > in_line_bytes_;
  return bytes <= std::max(in_line_bytes_, in_slot_bytes_);
}

void Lane::start_in_line(const RoleInLine& role) {
  in_line_ = true;
  role_ = role;
  begin_ = end_++;
  ready_from_ = 0;
  if (!role.shows) staged_ = end_;
}

void Lane::start(const GroupWork& work) {
  assert(!busy_);
  work_ = work;
  busy_ = true;
  const bool allreduce = work.action == GroupAction::kAllreduce;
  if (allreduce && work.parts.size() == 1 && fits_in_line(work.parts[0].bytes))
    return start_in_line({});  // needs no shares
  total_ = 0;
  for (const GroupPart& part : work.parts) total_ += part.bytes;
  if (!allreduce) {
    share();
    if (total_ > 0 && fits_in_line(shown_bytes())) return start_in_line(role_in_line());
  }
  in_line_ = false;
  planned_ = try_variant();
  if (planned_) plan();
}

bool Lane::ready() {
  if (!busy_ || !in_line_) return next() != Step::kNone;
  return staged_ == begin_ ? all_finished(begin_ - 1) : awaited_ready();
}

// To stage, or to end a call in which others read our memory; before it is planned, all it may be.
bool Lane::awaits_ends() const {
  if (!busy_) return false;
  if (in_line_) return staged_ == begin_;
  return !planned_ || (staged_ < end_ && staged_ <= gathered_ + 1) || gathered_ == end_;
}

std::size_t Lane::largest_share() const {
  return std::ranges::max(shares_, {}, &Region::bytes).bytes();
}

int Lane::owners() const {
  const auto owns = [](const Region& share) { return !share.empty(); };
  return static_cast<int>(std::ranges::count_if(shares_, owns));
}

bool Lane::try_variant() {
  Question question{work_.action, total_, team_.size(), false};
  variant_ = choose(question, thresholds_);
  question.can_read_peers = true;
  const Variant best = choose(question, thresholds_);
  if (best == variant_ && !may_be_read()) return true;
  if (team_.readable() == Team::Readable::kUnknown) return false;
  if (team_.readable() == Team::Readable::kYes) variant_ = best;
  return true;
}

// Rounds. The same result on every member.
void Lane::plan() {
  planned_ = true;
  begin_ = end_;
  ready_from_ = gather_from_ = 0;
  reduce_at_ = gather_at_ = 0;
  own_ = {};
  if (work_.action == GroupAction::kAllreduce && variant_ != Variant::kOneShot) share();
  know_roles();
  decide_streaming();
  decide_stores();
  decide_reading();
  decide_results();
  show();
  const std::size_t slot = team_.segments[0].shape().slot_bytes;
  const Question call{work_.action, total_, team_.size(), variant_ == Variant::kRead};
  const bool one_shot = variant_ == Variant::kOneShot;
  const std::size_t largest = one_shot ? total_ : largest_share();
  const std::size_t in_use = slot_in_use(call, thresholds_, slot);
  chunk_ = block_ = std::min(block_of_round(call, variant_, largest_share(), in_use),
                             line_multiple(largest + kLine - 1));
  const bool one_in_slot = one_shot || work_.action == GroupAction::kAllgather;
  places_ = places_in_slot(
      {one_in_slot ? block_ : block_ * team_.size(), team_.size(), work_.lanes}, in_use);
  take_pages();
  if (variant_ == Variant::kRead) {
    block_ = line_multiple(thresholds_.read_block);
    chunk_ = line_multiple(std::min(slot, team_.scratch.size() / team_.size()));
  }
  end_ = begin_ + std::max<std::uint64_t>(1, largest / block_ + (largest % block_ != 0));
  if (!stages_) staged_ = end_;
}

// Who adds up in place has the result's lines in its cache already.
void Lane::decide_streaming() {
  const bool in_place = is_in_place(), gathers_only = work_.action == GroupAction::kAllgather;
  const bool parted = work_.action != GroupAction::kAllreduce;
  const std::size_t other = in_place ? 0 : parted ? total_ / team_.size() : total_;
  Extent extent{work_.action, team_.size(), total_, total_ + other};
  if (work_.buffers > 0) {
    extent.buffers = work_.buffers;
    extent.lanes = work_.lanes;
  }
  const bool may = work_.last && (gathers_only || !in_place);
  streaming_ = exceeds_caches_ = may && bypasses_cache(extent, thresholds_);
  results_call_.bytes = may && may_bypass_cache(extent, thresholds_) ? as_allreduce(extent) : 0;
}

void Lane::decide_stores() {
  tried_ = Tried::kNothing;
  past_ = total_ >= thresholds_.past_from && thresholds_.past.value_or(false);
  // What the kernel reads is not loaded by others.
  if (total_ < thresholds_.past_from || thresholds_.past || by_kernel_) return;
  const std::optional<bool> tried = stores_trial_.begin(call_);
  past_ = tried ? *tried : team_.past_pays(call_);
  if (tried) begin_trial(Tried::kStores);
}

// Whether the kernel may copy what members own and others gather.
bool Lane::may_be_read() const {
  return variant_ == Variant::kStaged && work_.action == GroupAction::kAllgather &&
         total_ >= thresholds_.address_from && thresholds_.address.value_or(true);
}

void Lane::decide_reading() {
  if (by_kernel_ || tried_ != Tried::kNothing || !may_be_read()) return;
  if (team_.readable() != Team::Readable::kYes) return;
  const std::optional<bool> tried = reading_trial_.begin(call_);
  by_kernel_ = tried ? *tried : team_.reading_pays(call_);
  if (tried) begin_trial(Tried::kReading);
}

// One trial at a time. Results that the kernel writes cannot bypass the cache: such calls are in no
// trial of them.
void Lane::decide_results() {
  if (results_call_.bytes == 0) return;
  results_call_.action = call_.action;
  results_call_.one_owner = call_.one_owner;
  const bool depends = reduces() || !by_kernel_;
  std::optional<bool> tried;
  if (tried_ == Tried::kNothing && depends) tried = results_trial_.begin(results_call_);
  streaming_ = tried ? *tried : team_.results_bypass(results_call_).value_or(exceeds_caches_);
  if (tried) begin_trial(Tried::kResults);
}

// Who does what in the call, and whether the kernel is to copy without having been tried.
void Lane::know_roles() {
  call_ = {work_.action, total_};
  const bool readable = team_.readable() == Team::Readable::kYes;
  by_kernel_ =
      variant_ == Variant::kRead || (may_be_read() && readable && thresholds_.address.has_value());
  stages_ = takes_ = true;
  if (work_.action == GroupAction::kAllreduce || variant_ == Variant::kOneShot) return;
  const bool own = !shares_[team_.self].empty(), theirs = owners() > (own ? 1 : 0);
  const bool gathers_only = work_.action == GroupAction::kAllgather;
  call_.one_owner = gathers_only && owners() == 1;
  stages_ = gathers_only ? own : theirs;
  takes_ = gathers_only ? theirs : own;
}

void Lane::begin_trial(Tried what) {
  tried_ = what;
  took_ = {};
  const bool own = !shares_[team_.self].empty();
  if (what == Tried::kResults && !reduces() && own && !is_in_place()) takes_ = true;
}

// Who owns what, in all variants but one-shot.
void Lane::share() {
  const std::size_t n = shares_.size();
  if (work_.action == GroupAction::kAllreduce) {
    const std::size_t units = (total_ + kLine - 1) / kLine;
    for (std::size_t o = 0; o < n; ++o)
      shares_[o] = {kAnyOwner, std::min(total_, units * o / n * kLine),
                    std::min(total_, units * (o + 1) / n * kLine)};
    return;
  }
  for (std::size_t o = 0; o < n; ++o) shares_[o] = {static_cast<int>(o), 0, 0};
  for (const GroupPart& part : work_.parts) shares_[part.owner].end += part.bytes;
}

// A reduction over its own input has just read, and so has in the cache, what it writes to. Only
// our own parts tell: where the others' would lie does not matter. Of an allgather the two buffers.
bool Lane::is_in_place() const {
  if (work_.action == GroupAction::kAllgather) return work_.input == work_.output;
  return std::ranges::any_of(work_.parts, [&](const GroupPart& part) {
    const bool own = work_.action == GroupAction::kAllreduce || part.owner == team_.self;
    return own && work_.input + part.input_offset == work_.output + part.output_offset;
  });
}

// Of all places, when they are first used: one by one costs more than to copy what goes there.
void Lane::take_pages() {
  const std::size_t bytes = places_.count * places_.bytes;
  if (places_.count == 1) return;
  const bool stages = stages_ && own_.input.where == Shown::kSlot;
  if (stages && bytes > input_pages_)
    team_.segments[team_.self].take_input_pages(index_, input_pages_ = bytes);
  const bool results = gathers() && reduces() && own_.output.where == Shown::kSlot;
  if (results && bytes > result_pages_)
    team_.segments[team_.self].take_result_pages(index_, result_pages_ = bytes);
}

// Decides how the others read our memory: in place when it is shared, else by the kernel or not.
void Lane::show() {
  if (!by_kernel_ && total_ < thresholds_.direct) return;
  std::size_t in_begin = SIZE_MAX, in_end = 0, out_end = 0;
  for (const GroupPart& part : work_.parts) {
    out_end = std::max(out_end, part.output_offset + part.bytes);
    if (!reduces() && part.owner != team_.self) continue;  // is no part of our input
    in_begin = std::min(in_begin, part.input_offset);
    in_end = std::max(in_end, part.input_offset + part.bytes);
  }
  const auto look = [&](const std::byte* data, std::size_t begin, std::size_t end) -> Shown {
    if (const auto range = find_shared(data, end))
      return {range->id, range->offset, static_cast<std::uint32_t>(range->fd)};
    const bool slots = variant_ != Variant::kRead;  // would do as well
    if (!by_kernel_ || (slots && !team_.memory.can_show(data + begin, end - begin))) return {};
    return {Shown::kAddress, reinterpret_cast<std::uint64_t>(data), 0};
  };
  const bool shows_input = stages_ && (variant_ != Variant::kOneShot || !is_in_place());
  if (shows_input) own_.input = look(work_.input, in_begin, in_end);
  if (variant_ != Variant::kOneShot && work_.action == GroupAction::kAllreduce)
    own_.output = look(work_.output, 0, out_end);
}

// What `owner` owns in `round`; everything of the round in a one-shot call.
Region Lane::region(int owner, std::uint64_t round) const {
  const Region share =
      variant_ == Variant::kOneShot ? Region{kAnyOwner, 0, total_} : shares_[owner];
  const std::size_t begin = std::min(share.end, share.begin + (round - begin_) * block_);
  return {share.owner, begin, begin + std::min(share.end - begin, block_)};
}

Lane::Step Lane::next() {
  if (!busy_) return Step::kNone;
  if (!planned_) return try_variant() ? Step::kPlan : Step::kNone;
  if (staged_ < end_ && staged_ <= gathered_ + 1 && all_finished(staged_ - 1)) return Step::kStage;
  // What is there is gathered before more is reduced: it may still be in a cache.
  if (gathered_ < reduced_ && part_ready()) return Step::kGather;
  if (reduced_ < staged_ && reducible()) return Step::kReduce;
  if (gathered_ < end_) return Step::kNone;
  const bool exposed = own_.input.where != Shown::kSlot || own_.output.where != Shown::kSlot;
  return !exposed || all_finished(end_) ? Step::kEnd : Step::kNone;  // invariant 5
}

bool Lane::advance() {
  if (busy_ && in_line_) return advance_in_line();
  const Step step = next();
  if (step == Step::kNone) return false;
  if (tried_ == Tried::kNothing) {
    take(step);
  } else {
    const auto began = Clock::now();
    take(step);
    took_.add(Clock::now() - began);
  }
  return true;
}

void Lane::take(Step step) {
  switch (step) {
    case Step::kNone:
      return;
    case Step::kPlan:
      return plan();
    case Step::kStage:
      return stage();
    case Step::kReduce:
      return reduce();
    case Step::kGather:
      return gather();
    case Step::kEnd:
      return end();
  }
}

void Lane::end() {
  busy_ = false;
  if (tried_ == Tried::kNothing) return;
  std::optional<WayTrial::Time> took;
  if (takes_) took = took_.until(Clock::now());
  switch (std::exchange(tried_, Tried::kNothing)) {
    case Tried::kNothing:
      break;
    case Tried::kStores:
      return team_.note_stores(call_, stores_trial_.end(took, kPaysOthers));
    case Tried::kReading:
      return team_.note_reading(call_, reading_trial_.end(took, kPaysReading));
    case Tried::kResults:
      return team_.note_results(
          results_call_,
          results_trial_.end(took, exceeds_caches_ ? kPaysResults : kPaysResultsThatFit));
  }
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
bool Lane::reducible() {
  if (!reduces()) return true;
  if (variant_ != Variant::kOneShot && region(team_.self, reduced_).empty()) return true;
  return all_ready();
}

// Whether the next owner's part, or the end of the round, is there.
bool Lane::part_ready() {
  if (!gathers()) return true;
  for (; gather_from_ < team_.size(); ++gather_from_) {
    const int owner = (team_.self + gather_from_) % team_.size();
    if (region(owner, gathered_).empty()) continue;
    if (owner == team_.self) return true;
    if (!reduces()) return is_ready(owner, gathered_);
    return lines(owner).done.reduced.load(std::memory_order_acquire) >= gathered_ + 1;
  }
  return true;
}

void Lane::finish_round() {
  gather_from_ = 0;
  ++gathered_;
  // All that members own has been taken at once: nothing is left for the other rounds.
  const bool done = !reduces() && std::ranges::all_of(shares_, &Region::empty);
  if (done) gathered_ = reduced_ = staged_ = end_;
  lines(team_.self).done.finished.store(gathered_, std::memory_order_release);
  team_.announce(bell_, Flag::kEnd);
}

}  // namespace echelon::shm
