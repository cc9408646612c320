// SPDX-License-Identifier: Apache-2.0
// One lane of a shared-memory group: the state machine that runs one call at a time.
//
// A call is a number of rounds; round numbers go on from call to call. In a round each member
//   stages    puts what others need of its input into its slot, then ready = round + 1
//   reduces   what it owns, when all members are ready, then reduced = round + 1
//   gathers   what others own, when they are ready (allgather) or have reduced (allreduce),
//             then finished = round + 1
// and it stages round r + 1 before it waits in round r. Slots and ready lines are double: round r
// uses those of parity r % 2.
//
// Invariants
//  1. finished = r + 1 means: the owner of this line reads no slot or line of rounds <= r again.
//  2. A member stages round r only when all members have finished >= r - 1, that is, do not read
//     round r - 2 any more, which used the same slots and line. Hence what is read in round r
//     does not change until the reader has finished round r, and ready never passes r + 1 there.
//  3. In a one-shot round every member waits for all others, and they began it only after they
//     had finished all earlier calls. So who has finished the first round r of a one-shot call
//     knows that all have finished >= r, without looking. A chain of small calls therefore
//     touches one line per member and call, for payload and flag together.
//  4. Flags are stored with release and read with acquire; the fence and the look at the
//     sleepers come after (bell.h).
//  5. Only the member itself reads its user memory, so its call ends when its own work ends.
//
// Thread safety: none; the engine's thread only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transports/group.h"
#include "transports/shm/choose.h"
#include "transports/shm/pieces.h"
#include "transports/shm/segment.h"

namespace echelon::shm {

// What the lanes of an engine share.
class Bell;

struct Team {
  int self = 0;
  std::vector<Segment> segments;      // in group order
  std::vector<std::uint64_t> nonces;  // of the segments
  SegmentShape shape;
  Thresholds thresholds;
  std::uint64_t bytes_taken = 0;
  Bell* bell = nullptr;

  int size() const { return static_cast<int>(segments.size()); }
  void announce();  // wakes members that sleep; after every flag
};

class Lane {
 public:
  Lane(Team& team, int index);

  void start(const GroupWork& work);
  bool busy() const { return busy_; }
  bool ready() { return next() != Step::kNone; }  // advance() would do something

  // Does one step, of at most a slot's bytes. False when it has to wait for others.
  bool advance();

  // Forgets the call. True when there was one.
  bool cancel() { return std::exchange(busy_, false); }

  std::size_t moved() const { return moved_; }  // bytes, since take_moved()
  std::size_t take_moved() { return std::exchange(moved_, 0); }

 private:
  enum class Step { kNone, kStage, kReduce, kGather, kEnd };

  void plan();
  Step next();
  void stage();
  void reduce();
  void reduce_region(const Region& region, int slot_index);
  void gather();
  void gather_from(int owner);
  void finish_round();

  bool all_finished(std::uint64_t rounds);
  bool all_ready();
  bool part_ready();

  Region region(int owner, std::uint64_t round) const;
  const std::byte* staged(int member, std::uint64_t round) const;
  std::byte* staging(std::uint64_t round);
  LaneLines& lines(int member) const { return *lines_[member]; }

  Team& team_;
  const int index_;
  std::vector<LaneLines*> lines_;          // of all members
  std::vector<const std::byte*> sources_;  // scratch
  std::vector<Region> shares_;             // by owner, of the current call

  GroupWork work_;
  Variant variant_ = Variant::kOneShot;
  bool busy_ = false;
  bool in_line_ = false;      // the payload travels in the ready line
  bool streaming_ = false;    // results bypass the cache
  std::size_t total_ = 0;     // bytes of the call
  std::size_t block_ = 0;     // bytes of one owner in one round
  std::uint64_t begin_ = 0;   // first round of the call
  std::uint64_t end_ = 0;     // one past its last
  std::uint64_t staged_ = 0;  // rounds staged, reduced, gathered, ever
  std::uint64_t reduced_ = 0;
  std::uint64_t gathered_ = 0;
  std::uint64_t known_finished_ = 0;  // all members have finished at least this
  int ready_from_ = 0;                // members seen ready in the round to reduce
  int gather_from_ = 0;               // owners gathered in the round to gather
  std::size_t moved_ = 0;
};

}  // namespace echelon::shm
