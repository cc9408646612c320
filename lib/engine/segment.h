// SPDX-License-Identifier: Apache-2.0
// One segment of an operation on its way through the steps of a program.
#pragma once

#include <list>
#include <vector>

#include "lib/engine/buffer_list.h"
#include "lib/engine/link_meter.h"
#include "lib/engine/program.h"
#include "lib/engine/recorder.h"
#include "lib/engine/turns.h"
#include "lib/engine/view.h"
#include "transports/group.h"
#include "transports/memory.h"
#include "transports/transport.h"

namespace echelon {

class Operation;

// What a segment needs to run, and runs on.
struct SegmentWork {
  const Program* program = nullptr;
  Operation* operation = nullptr;
  View view;
  ech_dtype dtype = ECH_UINT8;
  ech_op op = ECH_SUM;
  Slice result;                      // what the segment leaves, in work
  int divisor = 1;                   // of the result; 1: leave it
  std::byte* deliver_to = nullptr;   // where to copy the result; nullptr: it is in its place
  const BufferList* list = nullptr;  // holds input and result, instead of the view
  std::size_t list_begin = 0;        // the segment's first element in it
  std::uint64_t number = 0;
  std::uint64_t index = 0;        // in its operation
  std::uint64_t sequence = 0;     // of its operation
  std::uint64_t first_turn = 0;   // of the operation's group calls
  Turns turns;                    // in which they come
  std::uint64_t lanes = 1;        // that the operation's segments take turns on
  std::uint16_t fingerprint = 0;  // of the caller's call
  std::size_t buffers = 0;        // bytes of input and output, of an operation of several calls
  bool metered = false;           // large messages between hosts are confirmed, and timed
};

struct Media {
  Transport* transport = nullptr;
  GroupEngine* group = nullptr;
  Memory* memory = nullptr;
  int lane = 0;
  LinkMeter* meter = nullptr;
  Recorder* recorder = nullptr;  // may be null
};

// Thread safety: none. Memory is kept from use to use.
class Segment {
 public:
  explicit Segment(const Media& media) : media_(media) {}
  Segment(const Segment&) = delete;

  bool active() const { return work_.program != nullptr; }
  Operation* operation() const { return work_.operation; }
  std::chrono::steady_clock::time_point began() const { return began_; }  // where ranks may nap

  // Takes over the lane. The view's work blocks are set by the caller, or, when `scratch_stride`
  // is not 0, point to memory of the segment's own with that many bytes per block. Of a list, the
  // segment's part is packed into such memory, unless it lies in one piece.
  void begin(const SegmentWork& work, std::size_t scratch_stride);

  // Goes as far as it can. True when anything changed; then ended() or failed() may have.
  bool advance();
  bool ended() const { return stage_ == Stage::kEnded; }

  // Whether messages, and not only the group, keep it from going on.
  bool awaits_messages() const {
    return (stage_ == Stage::kRunning && awaits_messages_) || !unconfirmed_.empty();
  }

  // Whether a call of the group does.
  bool awaits_group() const { return stage_ == Stage::kRunning && call_pending_; }

  // Whether the memory keeps it from going on.
  bool awaits_memory() const { return active() && awaits_memory_; }

  // The first completion that failed, or nullptr.
  const Completion* failed() const { return failed_; }

  const SegmentWork& work() const { return work_; }
  void release() {
    enter_phase(PhaseRecord::kNone);  // one that a failure has cut short ends here
    work_.program = nullptr;
  }

 private:
  enum class Stage {
    kBetween,     // steps: next_ is to be entered
    kCopying,     // the copies that come first in step next_
    kRunning,     // the rest of it
    kDelivering,  // the result, while what was sent may still be to be confirmed
    kEnded,
  };

  // For the recorder: what is done from now on.
  void enter_phase(std::int16_t phase) {
    if (media_.recorder != nullptr && phase != phase_) record_phase(phase);
  }
  void record_phase(std::int16_t next);
  bool delivers() const;
  std::int16_t last_phase() const;

  bool advance_stage();
  void start_copies(const Step& step);
  void start_step(const Step& step);
  void post(const Step& step);
  bool memory_done();
  bool is_metered(const Hop& message) const;
  void prepare_confirmations(const Step& step);
  void await_confirmations(const Step& step);
  bool take_confirmations();
  bool confirm(const Step& step);
  void start_call(const Call& call);
  bool complete(const Step& step);
  bool apply_merges(const Step& step, bool sends_done);
  void apply(const Merge& merge);
  void gather();
  void deliver();
  void scatter();
  void move(std::byte* to, const std::byte* from, std::size_t count, double factor);
  bool all_done(const std::vector<Completion>& completions, std::size_t begin, std::size_t end);
  Tag tag(const Hop& message) const;
  Tag confirmation_tag(const Hop& message) const { return tag(message) | kConfirmation; }

  // A message that was sent, and whose confirmation has not come.
  struct Unconfirmed {
    int peer;
    std::size_t bytes;
    std::byte content;
    Completion confirmation;
  };
  static constexpr Tag kConfirmation = 1 << 19;  // no program has as many messages

  const Media media_;
  SegmentWork work_;
  Stage stage_ = Stage::kEnded;
  std::int16_t phase_ = PhaseRecord::kNone;
  std::chrono::steady_clock::time_point began_;
  Nanoseconds phase_began_ = 0;
  std::size_t next_ = 0;
  std::uint64_t calls_ = 0;  // of the group, so far
  bool call_pending_ = false;
  bool awaits_messages_ = false;
  bool awaits_memory_ = false;
  std::vector<Completion> sends_, receives_, incoming_;
  std::list<Unconfirmed> unconfirmed_;     // of all steps so far
  std::list<Unconfirmed> spare_;           // memory for more
  std::vector<Completion> confirmations_;  // that we send, one per receive; of the others, done
  std::vector<char> confirmed_;            // by receive, or it needs not be
  std::vector<char> merged_;
  std::vector<std::byte*> incoming_at_;
  std::vector<GroupPart> parts_;
  std::vector<const std::byte*> sources_;
  const Completion* failed_ = nullptr;
};

}  // namespace echelon
