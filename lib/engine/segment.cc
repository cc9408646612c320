// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/segment.h"

#include <algorithm>
#include <cassert>

namespace echelon {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

void Segment::begin(const SegmentWork& work, std::size_t scratch_stride) {
  assert(!active());
  work_ = work;
  next_ = 0;
  calls_ = 0;
  stage_ = Stage::kBetween;
  awaits_memory_ = false;
  failed_ = nullptr;
  spare_.splice(spare_.end(), unconfirmed_);
  if (work.program->message_time.count() > 0) began_ = std::chrono::steady_clock::now();
  if (work_.list != nullptr) {
    enter_phase(PhaseRecord::kPack);
    gather();
  }
  if (scratch_stride == 0) return;
  const std::size_t bytes = scratch_stride * work.program->blocks;
  work_.view.work = {media_.memory->reserve(media_.lane, Memory::Use::kWork, bytes),
                     scratch_stride};
}

bool Segment::advance() {
  bool moved = !unconfirmed_.empty() && take_confirmations();
  while (stage_ != Stage::kEnded && failed_ == nullptr && advance_stage()) moved = true;
  return moved;
}

// From one stage to the next. False when something has to come first.
bool Segment::advance_stage() {
  const auto& steps = work_.program->steps;
  switch (stage_) {
    case Stage::kBetween:
      if (next_ < steps.size()) {
        enter_phase(steps[next_].phase);
        start_copies(steps[next_]);
        stage_ = Stage::kCopying;
      } else {
        enter_phase(last_phase());
        deliver();
        stage_ = Stage::kDelivering;
      }
      return true;
    case Stage::kCopying:
      if (!memory_done()) return false;
      start_step(steps[next_]);
      stage_ = Stage::kRunning;
      return true;
    case Stage::kRunning:
      if (!complete(steps[next_]) || !memory_done()) return false;
      ++next_;
      stage_ = Stage::kBetween;
      return true;
    case Stage::kDelivering:
      if (!memory_done() || !unconfirmed_.empty()) return false;
      enter_phase(PhaseRecord::kNone);
      stage_ = Stage::kEnded;
      return true;
    case Stage::kEnded:
      break;
  }
  return false;
}

void Segment::record_phase(std::int16_t next) {
  const Nanoseconds now = nanoseconds(std::chrono::steady_clock::now());
  if (phase_ != PhaseRecord::kNone)
    media_.recorder->add(PhaseRecord{phase_began_, now, work_.program, work_.sequence,
                                     work_.view.elements, static_cast<std::uint32_t>(work_.index),
                                     phase_, static_cast<std::uint8_t>(work_.view.element_size)});
  phase_ = next;
  phase_began_ = now;
}

// Whether the result is read again after all steps.
bool Segment::delivers() const {
  return work_.list != nullptr || work_.deliver_to != nullptr || work_.divisor > 1;
}

// What comes after all steps.
std::int16_t Segment::last_phase() const {
  const bool waits = !unconfirmed_.empty();
  return waits || (delivers() && !work_.result.empty()) ? PhaseRecord::kDeliver
                                                        : PhaseRecord::kNone;
}

bool Segment::memory_done() {
  awaits_memory_ = !media_.memory->done(media_.lane);
  return !awaits_memory_;
}

void Segment::deliver() {
  if (work_.result.empty()) return;
  const View& view = work_.view;
  std::byte* result = view.at_work(work_.result);
  if (work_.divisor > 1)
    media_.memory->divide(media_.lane,
                          {work_.dtype, result, view.count(work_.result), work_.divisor});
  if (work_.list != nullptr) scatter();
  if (work_.deliver_to != nullptr)
    media_.memory->copy(media_.lane, work_.deliver_to, result, view.bytes(work_.result));
}

// What lies in one piece is worked on where it is, the rest as a packed copy; scatter() brings the
// result back.
void Segment::gather() {
  const BufferList& list = *work_.list;
  View& view = work_.view;
  const std::size_t begin = work_.list_begin, end = begin + view.elements;
  const BufferList::Part first = list.part(begin, end);
  const bool one_piece = first.count == view.elements;
  view.input.data = first.input;
  view.work.data = first.output;
  if (one_piece && list.factors().before == 1) return;
  if (!one_piece)
    view.work.data =
        media_.memory->reserve(media_.lane, Memory::Use::kWork, view.elements * view.element_size);
  view.input.data = view.work.data;
  std::byte* at = view.work.data;
  list.each(begin, end, [&](const BufferList::Part& part) {
    move(at, part.input, part.count, list.factors().before);
    at += part.count * view.element_size;
  });
}

void Segment::scatter() {
  const View& view = work_.view;
  const std::byte* at = view.work.data;
  const std::size_t begin = work_.list_begin, end = begin + view.elements;
  work_.list->each(begin, end, [&](const BufferList::Part& part) {
    move(part.output, at, part.count, work_.list->factors().after);
    at += part.count * view.element_size;
  });
}

void Segment::move(std::byte* to, const std::byte* from, std::size_t count, double factor) {
  if (factor != 1)
    media_.memory->scale(media_.lane, {work_.dtype, to, from, count, factor});
  else if (to != from)
    media_.memory->copy(media_.lane, to, from, count * work_.view.element_size);
}

void Segment::start_copies(const Step& step) {
  const View& view = work_.view;
  for (Slice slice : step.local_copies) {
    const std::byte* from = view.at(Place::kInput, slice);
    std::byte* to = view.at_work(slice);
    if (from != to) media_.memory->copy(media_.lane, to, from, view.bytes(slice));
  }
}

void Segment::start_step(const Step& step) {
  post(step);
  for (const Call& call : step.calls) start_call(call);
}

// 48 bits: of the segment's number as many as tell those under way apart, the message's ordinal,
// and the call's fingerprint, so that messages of different calls never meet.
Tag Segment::tag(const Hop& message) const {
  return (work_.number & 0xffff) << 32 | (work_.fingerprint & 0xfffu) << 20 |
         (message.ordinal & 0xfffff);
}

// Receives before sends, so that what arrives early finds its place.
void Segment::post(const Step& step) {
  const View& view = work_.view;
  sends_.assign(step.sends.size(), Completion());
  receives_.assign(step.receives.size(), Completion());
  incoming_.assign(step.incoming.size(), Completion());
  merged_.assign(step.merges.size(), 0);
  incoming_at_.clear();
  confirmed_.clear();
  if (work_.metered) prepare_confirmations(step);
  std::size_t scratch = 0;
  for (const Hop& m : step.incoming) scratch += aligned(view.bytes(m.slice));
  std::byte* at =
      scratch == 0 ? nullptr : media_.memory->reserve(media_.lane, Memory::Use::kIncoming, scratch);
  for (std::size_t i = 0; i < step.incoming.size(); ++i) {
    const Hop& m = step.incoming[i];
    const std::size_t bytes = view.bytes(m.slice);
    media_.transport->receive(m.peer, tag(m), {at, bytes}, incoming_[i]);
    incoming_at_.push_back(at);
    at += aligned(bytes);
  }
  for (std::size_t i = 0; i < step.receives.size(); ++i) {
    const Hop& m = step.receives[i];
    media_.transport->receive(m.peer, tag(m), {view.at_work(m.slice), view.bytes(m.slice)},
                              receives_[i]);
  }
  for (std::size_t i = 0; i < step.sends.size(); ++i) {
    const Hop& m = step.sends[i];
    media_.transport->send(m.peer, tag(m), {view.at(m.place, m.slice), view.bytes(m.slice)},
                           sends_[i]);
  }
}

bool Segment::is_metered(const Hop& m) const {
  return work_.metered && m.copies && media_.meter->wants(m.peer, work_.view.bytes(m.slice));
}

void Segment::prepare_confirmations(const Step& step) {
  confirmations_.assign(step.receives.size(), Completion{true});
  for (const Hop& m : step.receives) confirmed_.push_back(!is_metered(m));
  await_confirmations(step);
}

void Segment::await_confirmations(const Step& step) {
  const auto now = std::chrono::steady_clock::now();
  for (const Hop& m : step.sends) {
    const std::size_t bytes = work_.view.bytes(m.slice);
    if (!m.copies && media_.meter->wants(m.peer, bytes)) media_.meter->beside(m.peer, bytes);
    if (!is_metered(m)) continue;
    if (spare_.empty()) spare_.emplace_back();
    unconfirmed_.splice(unconfirmed_.end(), spare_, spare_.begin());
    Unconfirmed& sent = unconfirmed_.back();
    sent.peer = m.peer;
    sent.bytes = bytes;
    media_.transport->receive(m.peer, confirmation_tag(m), {&sent.content, 1}, sent.confirmation);
    media_.meter->began(m.peer, now);
  }
}

bool Segment::take_confirmations() {
  const auto now = std::chrono::steady_clock::now();
  const std::size_t before = unconfirmed_.size();
  for (auto next = unconfirmed_.begin(); next != unconfirmed_.end();) {
    const auto sent = next++;
    if (!sent->confirmation.done) continue;
    if (sent->confirmation.status != ECH_OK) {
      failed_ = &sent->confirmation;
      return true;
    }
    media_.meter->ended(sent->peer, sent->bytes, now);
    spare_.splice(spare_.end(), unconfirmed_, sent);
  }
  return unconfirmed_.size() < before;
}

// Of what has come. True when nothing is left to be confirmed in this step.
bool Segment::confirm(const Step& step) {
  static constexpr std::byte kContent{};
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    if (confirmed_[i] || !receives_[i].done || receives_[i].status != ECH_OK) continue;
    const Hop& m = step.receives[i];
    confirmed_[i] = 1;
    media_.transport->send(m.peer, confirmation_tag(m), {&kContent, 1}, confirmations_[i]);
  }
  return std::ranges::find(confirmed_, 0) == confirmed_.end() &&
         all_done(confirmations_, 0, confirmations_.size());
}

void Segment::start_call(const Call& call) {
  const View& view = work_.view;
  const bool from_input = call.place == Place::kInput;
  parts_.clear();
  for (const Part& part : call.parts) {
    const std::size_t out = view.offset(view.work, part.slice);
    const std::size_t in = from_input ? view.offset(view.input, part.slice) : out;
    parts_.push_back({in, out, view.bytes(part.slice), part.owner});
  }
  const GroupWork work{call.action,
                       work_.dtype,
                       work_.op,
                       from_input ? view.input.data : view.work.data,
                       view.work.data,
                       parts_,
                       work_.fingerprint,
                       work_.first_turn + work_.turns.of(work_.index, calls_++),
                       call.members,
                       work_.buffers,
                       static_cast<int>(work_.lanes),
                       !delivers() && next_ + 1 == work_.program->steps.size()};
  media_.group->start(media_.lane, work);
  call_pending_ = true;
}

bool Segment::all_done(const std::vector<Completion>& completions, std::size_t begin,
                       std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (!completions[i].done) return false;
    if (completions[i].status != ECH_OK) failed_ = &completions[i];
  }
  return true;
}

bool Segment::complete(const Step& step) {
  const bool sends_done = all_done(sends_, 0, sends_.size());
  const bool receives_done = all_done(receives_, 0, receives_.size());
  const bool merges_done = apply_merges(step, sends_done);
  const bool all_confirmed = confirmed_.empty() || confirm(step);
  if (call_pending_ && media_.group->done(media_.lane)) call_pending_ = false;
  awaits_messages_ = !(sends_done && receives_done && merges_done && all_confirmed);
  return !awaits_messages_ && !call_pending_ && failed_ == nullptr;
}

bool Segment::apply_merges(const Step& step, bool sends_done) {
  bool all = true;
  for (std::size_t i = 0; i < step.merges.size(); ++i) {
    const Merge& merge = step.merges[i];
    if (merged_[i]) continue;
    const bool ready =
        (sends_done || !merge.after_sends) && all_done(incoming_, merge.begin, merge.end);
    if (ready && failed_ == nullptr) {
      apply(merge);
      merged_[i] = 1;
    }
    all = all && ready;
  }
  return all;
}

void Segment::apply(const Merge& merge) {
  const View& view = work_.view;
  sources_.assign(incoming_at_.begin() + merge.begin, incoming_at_.begin() + merge.end);
  sources_.insert(sources_.begin() + merge.own_index, view.at(merge.own, merge.slice));
  media_.memory->reduce(media_.lane, {work_.dtype, work_.op, sources_, view.at_work(merge.slice),
                                      view.count(merge.slice)});
}

}  // namespace echelon
