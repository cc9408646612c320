// SPDX-License-Identifier: Apache-2.0
// One lane of a shared-memory group: the state machine that runs one call at a time.
//
// A call is a number of rounds; round numbers go on from call to call. In a round each member
//   stages    puts what others need of its input into its slot, then ready = round + 1
//   reduces   what it owns, when all members are ready, then reduced = round + 1
//   gathers   what others own, when they are ready (allgather) or have reduced (allreduce),
//             then finished = round + 1
// and it stages round r + 1 before it waits in round r. Slots and ready lines are double: round r
// uses those of parity r % 2. From whom nobody takes anything (who owns nothing of an allgather,
// the only owner of a reduce-scatter) nobody awaits a flag: it stages nothing and is never ready.
//
// Invariants
//  1. finished = r + 1 means: the owner of this line reads no slot or line of rounds <= r
//     again.
//  2. A member stages round r only when all members have finished >= r - 1, that is, do not read
//     round r - 2 any more, which used the same slots and line. Hence what is read in round r
//     does not change until the reader has finished round r, and ready never passes r + 1 there.
//     The flag also carries a fingerprint of the call: members that called different things wait
//     for each other until somebody above finds out, and exchange nothing.
//  3. A member is ready in the first round r of a call only after it has finished all earlier
//     calls. So who has seen all others ready there knows that all have finished >= r, without
//     looking at their lines: all members of a one-shot call.
//     A call goes in line whose bytes fit beside the flags, or that is short and takes the slots
//     for them: one round, in which each waits for those from whom it takes something. A member
//     that takes nothing (the only owner of an allgather, who owns nothing of a reduce-scatter)
//     goes ahead; one that shows nothing neither stages nor raises a flag. A chain of calls in
//     which all await each other touches one line with a flag per member and call.
//  4. Flags are stored with release and read with acquire; the fence and the look at the
//     sleepers come after (bell.h). After the last flag of a call in line in which all await each
//     other there is no fence: who goes to sleep in that very moment, because it has gone two
//     one-sided calls ahead, is woken by the next flag, or by the limit of its sleep.
//  5. A member whose user memory is shown to others ends the call only when all members have
//     finished its last round: then, by 1, nobody reads that memory any more. In one-shot rounds
//     an input that is reduced in place is never shown, for others may still be reading it. In
//     the other variants a member overwrites of its shown memory only what it owns, which nobody
//     else reduces, and what it gathers, which its owner has reduced before.
//  6. What an owner shows elsewhere than in its slots all members gather in the first round of an
//     allgather, and await no more of it. When no owner uses slots they are done with all rounds.
//     All members know that alike, for all have read the same announcements; so nobody awaits a
//     flag that is left out.
//
// Thread safety: none; the engine's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "transports/group.h"
#include "transports/shm/call_time.h"
#include "transports/shm/choose.h"
#include "transports/shm/peer_memory.h"
#include "transports/shm/pieces.h"
#include "transports/shm/rounds.h"
#include "transports/shm/segment.h"
#include "transports/shm/team.h"
#include "transports/shm/way_trial.h"

namespace echelon::shm {

// What a ready line carries when not the payload itself.
struct Announced {
  ShownPair memory;          // the same in all rounds of a call
  std::uint32_t staged = 0;  // ns that it took to stage this round, in a trial (way_trial.h)
};

class Lane {
 public:
  Lane(Team& team, Bell& bell, const Thresholds& thresholds, int index);

  void start(const GroupWork& work);
  bool busy() const { return busy_; }
  bool ready();  // advance() would do something

  // Whether it may be the end of others' rounds that it waits for.
  bool awaits_ends() const;

  // Does one step, of at most some hundred KiB. False when it has to wait for others.
  bool advance();

  // Forgets the call. True when there was one.
  bool cancel() { return std::exchange(busy_, false); }

  std::size_t moved() const { return moved_; }  // bytes, since take_moved()
  std::size_t take_moved() { return std::exchange(moved_, 0); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Step { kNone, kPlan, kStage, kReduce, kGather, kEnd };

  // lane_in_line.cc: calls of one round whose bytes lie beside the flags, or, of a short allreduce,
  // in the slots
  enum class Awaited : std::uint8_t { kAll, kOwners, kNobody };
  struct RoleInLine {
    bool meets = true;               // all members await each other
    bool shows = true;               // others await this one
    Awaited awaits = Awaited::kAll;  // whose flags this one waits for
    bool knows = true;               // those are all others'
  };
  static std::size_t largest_in_line(int members, const Thresholds& thresholds);
  std::size_t largest_in_slot() const;
  bool fits_in_line(std::size_t bytes);
  std::size_t shown_bytes() const;
  RoleInLine role_in_line() const;
  bool advance_in_line();
  bool owners_ready();
  // Whether all those are ready from whom this member takes something.
  bool awaited_ready() {
    if (role_.awaits == Awaited::kAll) return all_ready();
    return role_.awaits == Awaited::kNobody || owners_ready();
  }
  std::byte* payload(int member, std::uint64_t round) const;
  void stage_in_line();
  void take_in_line();
  void reduce_in_line(const GroupPart& part, std::size_t at);
  void gather_in_line();

  // lane.cc: what to do when
  void start_in_line(const RoleInLine& role);
  bool try_variant();  // false while it is not known whether memory can be read
  std::size_t largest_share() const;
  int owners() const;  // who own something
  void share();
  void plan();
  void take_pages();
  bool is_in_place() const;
  void show();
  void decide_streaming();
  bool streams(const Piece& piece) const;
  void know_roles();
  void decide_stores();
  bool may_be_read() const;
  void decide_reading();
  void decide_results();
  enum class Tried : std::uint8_t { kNothing, kStores, kReading, kResults };
  void begin_trial(Tried what);
  bool tells_staging() const { return tried_ == Tried::kStores || tried_ == Tried::kReading; }
  void take(Step step);
  void end();
  Step next();
  bool all_finished(std::uint64_t rounds);
  bool reducible();

  // Whether all have staged the round to reduce.
  bool all_ready() {
    for (; ready_from_ < team_.size(); ++ready_from_)
      if (ready_from_ != team_.self && !is_ready(ready_from_, reduced_)) return false;
    return true;
  }
  bool part_ready();
  void finish_round();

  // lane_data.cc: moving bytes
  void stage();
  void count_staging(std::uint64_t round, int first, int last);
  bool at_once(int owner) const;
  const std::byte* map(int member, const Shown& from, const PeerMemory::Range& range);
  void put(const Region& from, std::byte* slot);
  void reduce();
  void reduce_region(const Region& region, std::size_t slot_at);
  void reduce_piece(const Piece& piece, std::byte* slot);
  void reduce_past_cache(const Piece& piece, std::byte* slot);
  void gather();
  void gather_region(int owner, const Region& from, std::size_t slot_at);
  const std::byte* fetch_input(int member, const Piece& piece, std::size_t slot_at);
  void fetch_output(int owner, const Piece& piece, std::size_t slot_at);
  Announced announced(int member, std::uint64_t round) const;  // requires that it is ready there

  bool gathers() const {
    return variant_ != Variant::kOneShot && work_.action != GroupAction::kReduceScatter;
  }
  bool reduces() const {
    return variant_ == Variant::kOneShot || work_.action != GroupAction::kAllgather;
  }
  Region region(int owner, std::uint64_t round) const;
  // What `member` stages in a round, or has reduced.
  std::byte* input_of(int member, std::uint64_t round) const {
    return team_.segments[member].input_slot(index_, parity(round)) + places_.at(round);
  }
  std::byte* result_of(int member, std::uint64_t round) const {
    return team_.segments[member].result_slot(index_, parity(round)) + places_.at(round);
  }
  LaneLines& lines(int member) const { return *lines_[member]; }
  // What a ready line shows in a round: its number, and what the call is.
  std::uint64_t flag(std::uint64_t round) const {
    return (round + 1) | std::uint64_t{work_.fingerprint} << 48;
  }
  bool is_ready(int member, std::uint64_t round) const {
    const auto& ready = lines(member).ready[parity(round)].ready;
    return ready.load(std::memory_order_acquire) == flag(round);
  }
  static int parity(std::uint64_t round) { return static_cast<int>(round & 1); }

  Team& team_;
  Bell& bell_;
  const Thresholds& thresholds_;
  const int index_;
  const std::size_t in_line_bytes_;        // the most that goes in line
  const std::size_t in_slot_bytes_;        // and of an allreduce so, by the slots
  std::vector<LaneLines*> lines_;          // of all members
  std::vector<const std::byte*> sources_;  // scratch
  std::vector<Region> shares_;             // by owner, of the current call

  GroupWork work_;
  Variant variant_ = Variant::kOneShot;
  bool busy_ = false;
  bool planned_ = false;
  bool in_line_ = false;           // the call goes in line
  bool in_slot_ = false;           // with its bytes in the slots
  RoleInLine role_;                // then
  bool streaming_ = false;         // results bypass the cache
  bool past_ = false;              // what the others load is written past the cache
  Tried tried_ = Tried::kNothing;  // what the call is a trial of
  bool by_kernel_ = false;         // who gathers what we own has the kernel copy it
  TrialCall call_;                 // how the call is known in trials
  TrialCall results_call_;         // and in those of its results; 0 bytes: there are none
  bool exceeds_caches_ = false;    // what is touched, by what the caches claim to hold
  ShownPair own_;                  // how the others read our memory
  std::size_t total_ = 0;          // bytes of the call
  std::size_t block_ = 0;          // bytes of one owner in one round
  Places places_;                  // of its rounds in the slots
  std::size_t input_pages_ = 0;    // bytes of our slots that have been taken
  std::size_t result_pages_ = 0;
  std::size_t chunk_ = 0;     // bytes of one owner reduced in one step
  std::uint64_t begin_ = 0;   // first round of the call
  std::uint64_t end_ = 0;     // one past its last
  std::uint64_t staged_ = 0;  // rounds staged, reduced, gathered, ever
  std::uint64_t reduced_ = 0;
  std::uint64_t gathered_ = 0;
  std::uint64_t known_finished_ = 0;  // all members have finished at least this
  int ready_from_ = 0;                // members seen ready in the round to reduce
  int gather_from_ = 0;               // owners gathered in the round to gather
  std::size_t reduce_at_ = 0;         // bytes of our region reduced in this round
  std::size_t gather_at_ = 0;         // bytes of the owner's region gathered
  std::size_t moved_ = 0;

  bool stages_ = false;  // others need something of this member's input

  bool takes_ = false;  // of a trial: what this member does depends on the way
  CallTime took_;
  WayTrial stores_trial_, reading_trial_, results_trial_;
};

}  // namespace echelon::shm
