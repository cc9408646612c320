// SPDX-License-Identifier: Apache-2.0
// Runs operations on transports. Every operation is cut into segments; each segment runs its
// program's steps in order; segments of one or of several operations overlap, one per lane.
//
// Thread safety: one thread at a time, except interrupt(), activity() and board().
// Invariants
//  1. Segments are numbered over all operations in order of start, alike on every rank; all ranks
//     have the same number of lanes. Segment k runs on lane k mod lanes, after segment k - lanes,
//     if there is one, has ended there. So every rank makes the calls of a lane in the same order.
//     Operations that are to have fewer segments under way, all together, than there are lanes use
//     the first lanes only and leave out the numbers of the others.
//  2. A message is named by (segment, ordinal in its program); both ends derive the same name.
//  3. The group's calls have turns (turns.h), counted over all operations in order of start.
//  4. Nothing is written to user memory after an operation has ended, however it ended.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/activity.h"
#include "lib/engine/link_meter.h"
#include "lib/engine/program.h"
#include "lib/engine/recorder.h"
#include "lib/engine/segment.h"
#include "lib/engine/task.h"
#include "transports/group.h"
#include "transports/memory.h"
#include "transports/transport.h"

namespace echelon {

using Clock = std::chrono::steady_clock;

class Operation {
 public:
  bool done() const { return done_; }
  ech_status status() const { return status_; }
  std::uint64_t sequence() const { return sequence_; }
  Clock::time_point deadline() const { return deadline_; }
  const Task& task() const { return task_; }
  std::string label() const { return task_.signature.label(sequence_); }  // "allreduce #7"

 private:
  friend class Engine;
  Task task_;
  std::uint64_t sequence_ = 0;
  std::size_t segments_ = 0, started_ = 0, ended_ = 0;
  std::uint64_t first_turn_ = 0;
  Clock::time_point called_, deadline_;
  Nanoseconds began_ = 0;  // for the recorder
  bool fence_ = false;
  bool done_ = false;
  ech_status status_ = ECH_OK;
};

// What else can end an operation, the other ranks' news, and who wants to hear of this rank's.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual int fd() const = 0;  // readable when there is news; -1: nothing to watch
  virtual void check() = 0;    // throws Error when the communicator has failed
  virtual std::string describe(int rank) const = 0;  // "rank 3 on hostB (pid 12)"
  // Nothing has come for `since`. What is known about it, or "": one line.
  virtual std::string waiting(std::chrono::nanoseconds since) = 0;
  // Something has failed here. Asks rank 0 at once what it is.
  virtual void ask() = 0;
  // Whether rank 0 owes an answer to waiting() or ask(): it may be the one that has failed.
  virtual bool in_doubt() = 0;
  virtual void report(const Error& error) noexcept = 0;  // this rank's operations have failed
};

// Who knows the program of a task that was started without one.
class Planner {
 public:
  virtual ~Planner() = default;
  // Asked when all operations before `sequence` are under way or have ended. Sets program and
  // segment; false when what they depend on has not ended yet.
  virtual bool plan(Task& task, std::uint64_t sequence) = 0;
};

struct EngineParts {
  std::unique_ptr<Transport> transport;  // may be null when no program needs messages
  std::unique_ptr<GroupEngine> group;    // may be null when no program has calls
  Group group_ranks;                     // members of `group`, in its order
  std::unique_ptr<Memory> memory;        // null: host memory
  Waitable* also = nullptr;              // what else ends a sleep, if not null; outlives the engine
  Watch* watch = nullptr;                // may be null; outlives the engine
  Planner* planner = nullptr;            // may be null when every task has a program; outlives it
  std::vector<int> host_of_rank;         // empty: links are not metered
  int rank = 0;                          // this one, among them
  Recorder* recorder = nullptr;          // may be null; outlives the engine
  std::span<std::byte> board;            // for its activity; empty: memory of its own
  std::chrono::nanoseconds spin{200'000};
  int patience = 2;  // polls of shared memory before a rank first gives way
};

struct EngineCounters {
  std::uint64_t operations = 0, bytes = 0, waits = 0;
  // In which others had the core that this thread gave away while it waited. At most `spin` of each
  // time: who keeps it longer is no rank that has a message to move.
  std::chrono::nanoseconds gave_way{};
};

class Engine {
 public:
  explicit Engine(EngineParts parts);
  ~Engine();

  // The operation belongs to the caller until release(). Throws only when nothing was started.
  Operation* start(const Task& task) { return enqueue(task, next_sequence_, false); }

  // With a number from take_sequence() of another engine that shares the calls with this one.
  Operation* start(const Task& task, std::uint64_t sequence) {
    return enqueue(task, sequence, false);
  }
  std::uint64_t take_sequence() { return next_sequence_++; }
  void release(Operation* operation);  // which must be done

  // An operation of the engine's own, and not counted: what is started after it waits for its end.
  // Throws like start().
  void fence(const Task& task) { fence(task, next_sequence_); }
  void fence(const Task& task, std::uint64_t sequence) { enqueue(task, sequence, true); }

  // start(), wait() and release() in one; throws the failure. The short cut for what is one call of
  // the group: nothing lies between the caller and shared memory.
  void run(const Task& task);

  // Moves what can be moved. True when anything happened.
  bool progress();

  // progress(), also of the network when no operation is under way.
  bool push();

  // Whether no operation that has ended has bytes in this process that wait for their connection:
  // they leave in push() only, and other ranks wait for them. True while operations are under way,
  // which need progress anyway.
  bool all_left();

  // Progress without blocking. True when `operation` is done and all_left(); its deadline counts as
  // in wait().
  bool test(Operation& operation);

  // Blocks until test() would be true or the deadline passes, which fails the engine. The deadline
  // is counted from start(); where the short cut of run() is taken, from the first idle wait.
  void wait(Operation& operation);

  // The same, or until `enough` returns true. It is asked whenever something has moved, and when
  // what else ends a sleep has.
  void wait(Operation& operation, const std::function<bool()>& enough);

  // Blocks until nothing is under way and all_left(), or `deadline` has passed, which fails the
  // engine.
  void drain(Clock::time_point deadline);

  // Any thread, any number of times: wakes the owning thread, whose next progress() ends everything
  // with what the watch knows, else with ECH_ERR_ABORTED.
  void interrupt() noexcept;

  // Something without which it cannot go on has failed: ends everything, here and elsewhere.
  void give_up(const Error& error) { fail_here(error.code(), error.what()); }

  // A call that needs nothing to be done, but counts.
  void note(const Signature& signature);
  const Activity& activity() const { return activity_; }
  std::uint64_t next_sequence() const { return next_sequence_; }

  // ECH_OK, or why no operation can succeed any more, and one line about it.
  ech_status failed() const { return failure_; }
  const std::string& failure() const { return failure_text_; }

  // Operations that have not ended: others may wait for this rank to move them.
  bool busy() const { return active_ > 0 || !queue_.empty(); }

  const EngineCounters& counters() const { return counters_; }
  LinkMeter& meter() { return meter_; }
  const Transport* transport() const { return parts_.transport.get(); }
  Transport* transport() { return parts_.transport.get(); }
  const GroupEngine* group() const { return parts_.group.get(); }

  // Where a rank of this group writes its activity; empty for others. Any thread.
  std::span<const std::byte> board(int rank) const;

 private:
  // One blocking wait.
  struct Wait {
    const Task* task;  // for messages; null when it is for everything under way
    std::uint64_t sequence;
    std::chrono::nanoseconds timeout;
    std::optional<Clock::time_point> deadline;  // none: set when it is first looked at
    const Operation* operation = nullptr;       // null: naps are not for it

    // Whether the task's plan waits for the network.
    bool for_network() const {
      return task != nullptr && task->program != nullptr && task->program->waits_for_network;
    }
  };

  // A lane is used without a segment.
  struct Direct {
    const Task* task = nullptr;  // null: none is
    std::uint64_t sequence = 0;
    Nanoseconds called = 0;  // for the recorder
  };

  Operation* enqueue(const Task& task, std::uint64_t sequence, bool fence);
  void admit();
  bool has_plan(Operation& operation);
  std::size_t lanes_for(const Program& program) const;
  std::size_t skip_to_lane(const Program& program);
  void give_lane(Segment& lane, Operation& operation);
  bool advance_lanes();
  std::uint64_t take_number();
  std::size_t lane_after(std::size_t lane) const {
    return lane + 1 == lanes_.size() ? 0 : lane + 1;
  }
  void end_segment(Segment& segment);
  void finish(Operation& operation, ech_status status);
  void count(const Task& task);
  void fail(ech_status status, const std::string& text);
  void fail_here(ech_status status, const std::string& text);
  void fail_unless_known(ech_status status, const std::string& text);
  void obey_interrupt();
  std::string pending() const;
  bool try_progress();
  bool awaits_messages() const;
  bool awaits_group() const;
  bool poll_network();
  bool is_direct(const Task& task) const;
  void run_direct(const Task& task);
  void start_direct(const Task& task, int lane);
  bool divides_directly(const Task& task) const;
  void record(const Operation& operation, ech_status status);
  void record_direct();
  bool poll_direct(int lane);
  void wait_direct(const Task& task, std::uint64_t sequence, int lane);
  template <typename Done>
  void wait_until(Done done, Wait& wait);
  void end_idleness();
  std::chrono::nanoseconds time_to_nap(const Wait& wait, Clock::duration idle) const;
  bool needs_network();
  bool polls_on(const Wait& wait, Clock::duration idle) const;
  bool sleeps_at_once(const Wait& wait) const;
  void yield(Clock::time_point now);
  void nap_where_refused(Clock::duration idle);
  void give_way(Wait& wait);
  bool past_deadline(Wait& wait, Clock::time_point now);
  bool keep_waiting(Wait& wait, Clock::time_point now);
  void fail_thrown();
  bool check_group();
  void check_watch();

  // What is thrown halfway leaves steps half done: nothing can go on after it.
  template <typename Body>
  void or_fail(Body body) {
    try {
      body();
    } catch (...) {
      fail_thrown();
    }
  }

  template <typename Body>
  void or_fail_too(Operation& operation, Body body);

  EngineParts parts_;
  Activity activity_;
  LinkMeter meter_;
  std::vector<std::unique_ptr<Segment>> lanes_;
  std::vector<std::unique_ptr<Operation>> pool_;  // all operations ever made
  std::vector<Operation*> free_;
  std::deque<Operation*> queue_;      // with segments that have not started, in order
  const Operation* fence_ = nullptr;  // the one under way
  std::uint64_t next_segment_ = 0;
  std::size_t next_lane_ = 0;  // next_segment_ modulo the lanes: to divide would take longer
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_turn_ = 0;
  int active_ = 0;  // segments under way
  Direct direct_;
  std::vector<GroupPart> direct_parts_;
  unsigned polls_ = 0, idle_polls_ = 0;
  EngineCounters counters_;
  ech_status failure_ = ECH_OK;
  std::string failure_text_;
  std::optional<Clock::time_point> idle_since_;     // nothing has come since then
  Clock::duration given_away_{};                    // of that, by yields
  bool refused_ = false;                            // since then, to sleep
  std::optional<Clock::time_point> stalled_since_;  // nor has a segment or the group moved
  bool slept_on_network_ = false;                   // and has not looked at it since
  std::string why_;                                 // what the watch last said about it
  Clock::duration segment_took_{};                  // the last that ended, of those for naps
  Clock::time_point ask_watch_at_{};                // in test(): not before
  std::atomic<bool> interrupted_{false};
};

}  // namespace echelon
