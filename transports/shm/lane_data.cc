// SPDX-License-Identifier: Apache-2.0
// How a lane moves bytes: into its slots, from the other members, into user memory.
#include <cstring>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"
#include "transports/shm/copy.h"
#include "transports/shm/lane.h"

namespace echelon::shm {
namespace {

constexpr std::size_t kGatherBytes = std::size_t{256} << 10;  // in one step

// What goes past the cache is reduced into a buffer of so many bytes, in the first-level cache, and
// streamed from there. Less than kLeastPiece in one place is not worth the fence.
constexpr std::size_t kPiece = 8192, kLeastPiece = 1024;

static_assert(sizeof(Announced) <= kInlineBytes);

// The next `limit` bytes of a region of which `at` bytes are done.
Region next_chunk(const Region& region, std::size_t at, std::size_t limit) {
  const std::size_t begin = region.begin + at;
  return {region.owner, begin, begin + std::min(limit, region.end - begin)};
}

}  // namespace

Announced Lane::announced(int member, std::uint64_t round) const {
  Announced out;
  std::memcpy(&out, lines(member).ready[parity(round)].payload, sizeof out);
  return out;
}

void Lane::put(const Region& from, std::byte* slot) {
  pieces(work_.parts, from, [&](const Piece& piece) {
    deliver(slot + piece.position, work_.input + piece.input_offset, piece.bytes,
            past_ && piece.bytes >= kLeastPiece);
  });
  moved_ += from.bytes();
}

void Lane::stage() {
  ReadyLine& line = lines(team_.self).ready[parity(staged_)];
  std::byte* slot = input_of(team_.self, staged_);
  const bool told = tells_staging();
  const auto began = told ? Clock::now() : Clock::time_point();
  const bool whole = variant_ == Variant::kOneShot || work_.action == GroupAction::kAllgather;
  const bool puts = stages_ && own_.input.where == Shown::kSlot;
  for (int owner = 0; puts && owner < team_.size(); ++owner)
    if (whole == (owner == team_.self))
      put(region(owner, staged_), whole ? slot : slot + owner * block_);
  const auto took = told ? Clock::now() - began : WayTrial::Time();
  const Announced shown{own_, static_cast<std::uint32_t>(took.count())};
  std::memcpy(line.payload, &shown, sizeof shown);
  line.ready.store(flag(staged_), std::memory_order_release);
  ++staged_;
  team_.announce(bell_);
}

// In a trial of who stages nothing: how long it took those who did, of members `first` to before
// `last`, who are ready in that round. They write as slowly as they are made to. What lies in
// shared memory is loaded from there either way.
void Lane::count_staging(std::uint64_t round, int first, int last) {
  if (!tells_staging()) return;
  WayTrial::Time longest{};
  for (int m = first; m < last; ++m) {
    if (m == team_.self) continue;
    const Announced from = announced(m, round);
    longest = std::max(longest, WayTrial::Time(from.staged));
    if (tried_ == Tried::kReading && from.memory.input.is_shared()) takes_ = false;
  }
  if (stages_) return;
  const Staging how = tried_ == Tried::kStores
                          ? Staging::kInTurn
                          : staging_of_gathers(team_.size(), thresholds_.crowded);
  took_.add_staging(how, longest, team_.size(), Clock::now());
}

// Our region of the round, chunk by chunk.
void Lane::reduce() {
  if (reduces()) {
    const Region whole = region(team_.self, reduced_);
    if (reduce_at_ == 0 && !whole.empty()) count_staging(reduced_, 0, team_.size());
    const Region chunk = next_chunk(whole, reduce_at_, chunk_);
    const std::size_t first = variant_ == Variant::kOneShot ? 0 : team_.self * block_;
    reduce_region(chunk, first + reduce_at_);
    reduce_at_ += chunk.bytes();
    if (reduce_at_ < whole.bytes()) return;
  }
  reduce_at_ = 0;
  ready_from_ = 0;
  if (variant_ == Variant::kOneShot && reduced_ == begin_)
    known_finished_ = std::max(known_finished_, begin_);  // invariant 3
  ++reduced_;
  if (variant_ == Variant::kOneShot) return finish_round();
  if (work_.action != GroupAction::kAllreduce) return;
  lines(team_.self).done.reduced.store(reduced_, std::memory_order_release);
  team_.announce(bell_);
}

bool Lane::streams(const Piece& piece) const { return streaming_ && piece.bytes >= kLeastPiece; }

// Reduces `region` of all members, which is at slot_at in their slots.
void Lane::reduce_region(const Region& region, std::size_t slot_at) {
  const bool to_slot = gathers() && own_.output.where == Shown::kSlot;
  std::byte* result = result_of(team_.self, reduced_);
  pieces(work_.parts, region, [&](const Piece& piece) {
    for (int m = 0; m < team_.size(); ++m) sources_[m] = fetch_input(m, piece, slot_at);
    if (team_.failure == ECH_OK)
      reduce_piece(piece, to_slot ? result + reduce_at_ + piece.position : nullptr);
  });
  const std::size_t taken = region.bytes() * (sources_.size() - 1);
  moved_ += taken;
  team_.bytes_taken += taken;
}

// Reduces sources_ to user memory, and to a slot, if any, where others read it.
void Lane::reduce_piece(const Piece& piece, std::byte* slot) {
  const bool mapped = gathers() && variant_ != Variant::kRead;  // others load the result
  if (mapped ? past_ && piece.bytes >= kLeastPiece : streams(piece))
    return reduce_past_cache(piece, slot);
  std::byte* user = work_.output + piece.output_offset;
  std::byte* out = slot != nullptr ? slot : user;
  echelon::reduce(work_.dtype, work_.op, sources_, out, elements_in(piece.bytes, work_.dtype));
  deliver(user, out, piece.bytes, streams(piece));
}

void Lane::reduce_past_cache(const Piece& piece, std::byte* slot) {
  alignas(kLine) std::byte buffer[kPiece];
  std::byte* user = work_.output + piece.output_offset;
  for (std::size_t at = 0; at < piece.bytes; at += kPiece) {
    const std::size_t bytes = std::min(kPiece, piece.bytes - at);
    echelon::reduce(work_.dtype, work_.op, sources_, buffer, elements_in(bytes, work_.dtype));
    if (slot != nullptr) stream_copy(slot + at, buffer, bytes);
    deliver(user + at, buffer, bytes, slot == nullptr || streams(piece));
    for (const std::byte*& source : sources_) source += bytes;
  }
}

// Where a piece of a member's input can be loaded from. What only the kernel can read is copied
// to scratch first.
const std::byte* Lane::fetch_input(int member, const Piece& piece, std::size_t slot_at) {
  if (member == team_.self) return work_.input + piece.input_offset;
  const std::size_t at = slot_at + piece.position;
  const Shown from = announced(member, reduced_).memory.input;
  if (from.where == Shown::kSlot) return input_of(member, reduced_) + at;
  if (from.where != Shown::kAddress) return map(member, from, {piece.input_offset, piece.bytes});
  std::byte* scratch = team_.scratch.data() + member * chunk_ + piece.position;
  const ech_status status =
      team_.memory.read(member, from.at + piece.input_offset, scratch, piece.bytes);
  if (status != ECH_OK) team_.fail(member, status);
  return scratch;
}

// Whether all that a member owns is gathered in the first round: not through slots, but from where
// it lies.
bool Lane::at_once(int owner) const {
  if (reduces() || region(owner, gathered_).empty()) return false;
  const Shown from = owner == team_.self ? own_.input : announced(owner, gathered_).memory.input;
  return from.where != Shown::kSlot;
}

const std::byte* Lane::map(int member, const Shown& from, const PeerMemory::Range& range) {
  ech_status status = ECH_OK;
  const std::byte* const data = team_.memory.map(member, from, range, status);
  if (data == nullptr) team_.fail(member, status);
  return data;
}

// The next part of the round, or a chunk of it; or the round's end.
void Lane::gather() {
  if (gathers() && gather_from_ < team_.size()) {
    const int owner = (team_.self + gather_from_) % team_.size();
    const bool all = at_once(owner);
    const Region whole = all ? shares_[owner] : region(owner, gathered_);
    if (!reduces() && gather_at_ == 0 && !whole.empty()) count_staging(gathered_, owner, owner + 1);
    const Region chunk = next_chunk(whole, gather_at_, kGatherBytes);
    gather_region(owner, chunk, gather_at_);
    gather_at_ += chunk.bytes();
    if (gather_at_ < whole.bytes()) return;
    gather_at_ = 0;
    if (all) shares_[owner].begin = shares_[owner].end;
    if (++gather_from_ < team_.size()) return;
  }
  finish_round();
}

void Lane::gather_region(int owner, const Region& from, std::size_t slot_at) {
  if (owner != team_.self) {
    pieces(work_.parts, from, [&](const Piece& piece) { fetch_output(owner, piece, slot_at); });
    team_.bytes_taken += from.bytes();
  } else if (!reduces()) {
    pieces(work_.parts, from, [&](const Piece& piece) {
      deliver(work_.output + piece.output_offset, work_.input + piece.input_offset, piece.bytes,
              streams(piece));
    });
  }
  moved_ += from.bytes();
}

// Brings a piece of what another owns to our output: its input in an allgather, else its output.
void Lane::fetch_output(int owner, const Piece& piece, std::size_t slot_at) {
  std::byte* out = work_.output + piece.output_offset;
  const ShownPair pair = announced(owner, gathered_).memory;
  const Shown& from = reduces() ? pair.output : pair.input;
  const std::size_t offset = reduces() ? piece.output_offset : piece.input_offset;
  if (from.where == Shown::kSlot) {
    const std::byte* slot = reduces() ? result_of(owner, gathered_) : input_of(owner, gathered_);
    return deliver(out, slot + slot_at + piece.position, piece.bytes, streams(piece));
  }
  if (from.where == Shown::kAddress) {
    const ech_status status = team_.memory.read(owner, from.at + offset, out, piece.bytes);
    if (status != ECH_OK) team_.fail(owner, status);
    return;
  }
  const std::byte* data = map(owner, from, {offset, piece.bytes});
  if (data != nullptr) deliver(out, data, piece.bytes, streams(piece));
}

}  // namespace echelon::shm
