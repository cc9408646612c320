// SPDX-License-Identifier: Apache-2.0
// Whole phases on a group of ranks, for media that do them natively: shared memory, NCCL.
//
// A group engine has lanes. A lane runs one call at a time; the calls of one lane are made by
// every member in the same order. Lanes are independent of each other, so that segments of one
// operation can be in different phases.
//
// Thread safety: one thread at a time, except abort(), which any thread may call at any time.
// Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/error.h"
#include "lib/base/group_action.h"
#include "transports/waitable.h"

namespace echelon {

// Bytes at the same two offsets on every member; only the output offsets of a kReduceScatter may
// differ, where they count at the owner alone. `owner` is an index into the group.
struct GroupPart {
  std::size_t input_offset;   // from GroupWork::input
  std::size_t output_offset;  // from GroupWork::output
  std::size_t bytes;          // a multiple of the element size
  int owner;
};

// What one member contributes to a call. The same on all members but for the two pointers and,
// where a member owns no part, their use; and for `buffers` and `last`.
//  kReduceScatter  at each owner: output part = op over members of their input part.
//                  input == output is allowed (with equal offsets): other members' inputs are
//                  then left unspecified only in the parts that the member owns. Who owns none
//                  needs no output.
//  kAllgather      at every member: output part = the owner's input part. At the owner, input and
//                  output part may be the same memory.
//  kAllreduce      at every member: output part = op over members of their input part, the same
//                  bits everywhere. May be in place. Owners are ignored.
// Reductions take members in group order, so every owner order gives the same bits.
struct GroupWork {
  GroupAction action = GroupAction::kAllreduce;
  ech_dtype dtype = ECH_UINT8;
  ech_op op = ECH_SUM;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::span<const GroupPart> parts;  // stays valid until the call is done
  std::uint16_t fingerprint = 0;     // of what the caller asked for: members that differ never meet
  // Of the call among those of all lanes, for engines that need one order (lib/engine/turns.h).
  std::uint64_t turn = 0;
  // Of the group that makes the call, for an engine that serves two of them, one inside the other.
  int members = 0;
  // What decides whether results may bypass the cache. Of an operation of several calls: bytes of
  // the caller's buffers, the lanes that its calls use, and whether this call's outputs are not
  // read again before it ends.
  std::size_t buffers = 0;  // 0: the operation is this call
  int lanes = 1;            // also what others of the operation's kind use, in turns
  bool last = true;
};

class GroupEngine : public Waitable {
 public:
  virtual int lanes() const = 0;

  // Starts `work` on an idle lane. May already be done when it returns. Until done, the inputs
  // must not change and the outputs must not be read. Work with no parts is a barrier.
  virtual void start(int lane, const GroupWork& work) = 0;

  // Done: this member's outputs are in place, and no other member reads its memory any more.
  virtual bool done(int lane) const = 0;

  // Moves what can be moved on all lanes. True when anything happened.
  virtual bool progress() = 0;

  // Moves what can be moved on one lane. True when it is done. Cheaper than progress() where
  // nothing else is under way.
  virtual bool poll(int lane) {
    progress();
    return done(lane);
  }

  // Ends everything pending and later: lanes become done, failed() tells. After the next
  // progress() no member of this process touches user memory again.
  virtual void abort() = 0;

  // ECH_OK, or why the group cannot be used any more.
  virtual ech_status failed() const = 0;

  // Then, the member whose memory could not be read; -1 when that is not why.
  virtual int unreadable() const { return -1; }

  // Some KiB of zeroed memory for each member to write to and every member to read, also after the
  // writer's death; as long as this object lives. Empty when there is none.
  virtual std::span<std::byte> board(int member) = 0;

  // Payload bytes taken from other members so far.
  virtual std::uint64_t bytes() const = 0;
};

class GroupMedium {
 public:
  virtual ~GroupMedium() = default;
  virtual std::string address() const = 0;

  // Consumes the medium. `members` holds the addresses in group order, `self` our index.
  // All members must still exist; does not wait for them.
  virtual std::unique_ptr<GroupEngine> connect(int self, std::span<const std::string> members) = 0;
};

}  // namespace echelon
