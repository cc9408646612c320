// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "lib/base/pipeline.h"
#include "lib/base/relax.h"
#include "lib/engine/host_memory.h"
#include "lib/reduce/reduce.h"

namespace echelon {
namespace {

constexpr unsigned kPollsPerNetworkPoll = 8;
constexpr unsigned kIdlePollsPerCheck = 1024;

}  // namespace

Engine::Engine(EngineParts parts)
    : parts_(std::move(parts)), activity_(parts_.board), meter_(parts_.host_of_rank, parts_.rank) {
  const int lanes = parts_.group ? parts_.group->lanes() : kPipelineDepth;
  if (parts_.memory == nullptr) parts_.memory = std::make_unique<HostMemory>(lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    lanes_.push_back(
        std::make_unique<Segment>(Media{parts_.transport.get(), parts_.group.get(),
                                        parts_.memory.get(), lane, &meter_, parts_.recorder}));
  }
}

Engine::~Engine() {
  if (active_ > 0 || !queue_.empty()) fail(ECH_ERR_ABORTED, "the communicator was destroyed");
}

Operation* Engine::enqueue(const Task& task, std::uint64_t sequence, bool fence) {
  assert(task.count > 0 && (task.program == nullptr || task.segment > 0));
  obey_interrupt();
  if (failure_ != ECH_OK) throw Error(failure_, failure_text_);
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Operation>());
    free_.push_back(pool_.back().get());
  }
  Operation* operation = free_.back();
  if (active_ == 0 && queue_.empty()) stalled_since_.reset();
  queue_.push_back(operation);  // the last that may throw
  free_.pop_back();
  *operation = Operation();
  operation->task_ = task;
  operation->fence_ = fence;
  operation->sequence_ = sequence;
  next_sequence_ = sequence + 1;
  operation->segments_ = task.program == nullptr ? 1 : segments_of(task);
  operation->called_ = Clock::now();
  operation->deadline_ = operation->called_ + task.timeout;
  activity_.begin(operation->sequence_, task.signature,
                  static_cast<std::uint32_t>(operation->segments_));
  or_fail([&] { admit(); });
  return operation;
}

void Engine::fail_thrown() {
  try {
    throw;
  } catch (const Error& e) {
    if (e.code() == ECH_ERR_PEER) return fail_unless_known(e.code(), e.what());
    fail_here(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    fail_here(ECH_ERR_NO_MEMORY, "out of memory in an operation under way");
  } catch (const std::exception& e) {
    fail_here(ECH_ERR_INTERNAL, e.what());
  }
}

void Engine::release(Operation* operation) {
  assert(operation->done());
  operation->task_.list.reset();
  free_.push_back(operation);
}

// The first so many lanes are those that the program's segments use.
std::size_t Engine::lanes_for(const Program& program) const {
  const std::size_t wanted = program.under_way;
  return wanted > 0 ? std::min(wanted, lanes_.size()) : lanes_.size();
}

// Leaves out the numbers of lanes that the program's segments do not use.
std::size_t Engine::skip_to_lane(const Program& program) {
  if (next_lane_ >= lanes_for(program)) {
    next_segment_ += lanes_.size() - next_lane_;
    next_lane_ = 0;
  }
  return next_lane_;
}

// Gives free lanes to segments, in order, and none past a fence.
void Engine::admit() {
  while (!queue_.empty() && fence_ == nullptr) {
    Operation& operation = *queue_.front();
    if (!has_plan(operation)) return;
    Segment& lane = *lanes_[skip_to_lane(*operation.task_.program)];
    if (lane.active()) return;
    give_lane(lane, operation);
    if (operation.started_ == operation.segments_) queue_.pop_front();
    lane.advance();
    if (lane.ended()) end_segment(lane);
  }
}

// Of the segment that gets the next lane.
std::uint64_t Engine::take_number() {
  next_lane_ = lane_after(next_lane_);
  return next_segment_++;
}

bool Engine::has_plan(Operation& operation) {
  Task& task = operation.task_;
  if (task.program != nullptr) return true;
  if (!parts_.planner->plan(task, operation.sequence_)) return false;
  operation.segments_ = segments_of(task);
  activity_.plan(operation.sequence_, static_cast<std::uint32_t>(operation.segments_));
  return true;
}

void Engine::give_lane(Segment& lane, Operation& operation) {
  const Task& task = operation.task_;
  const std::size_t begin = operation.started_ * task.segment;
  const std::size_t end = std::min(task.count, begin + task.segment);
  SegmentWork work = segment_work(task, begin, end);
  work.operation = &operation;
  work.number = take_number();
  if (operation.started_ == 0) {
    if (parts_.recorder != nullptr) operation.began_ = nanoseconds(Clock::now());
    operation.first_turn_ = next_turn_;
    next_turn_ += operation.segments_ * task.program->calls;
  }
  work.index = operation.started_;
  work.sequence = operation.sequence_;
  work.first_turn = operation.first_turn_;
  work.lanes = lanes_for(*task.program);
  work.turns = Turns(operation.segments_, task.program->calls, work.lanes);
  std::size_t scratch_stride = 0;
  if (needs_scratch(task)) {
    if (task.output != nullptr) work.deliver_to = work.view.work.data;
    scratch_stride = std::max<std::size_t>(1, (end - begin) * work.view.element_size);
  }
  lane.begin(work, scratch_stride);
  ++active_;
  ++operation.started_;
  if (operation.fence_) fence_ = &operation;
}

void Engine::interrupt() noexcept {
  interrupted_.store(true, std::memory_order_release);
  if (parts_.transport != nullptr) parts_.transport->abort();
  if (parts_.group != nullptr) parts_.group->abort();
}

void Engine::obey_interrupt() {
  if (!interrupted_.load(std::memory_order_acquire) || failure_ != ECH_OK) return;
  check_watch();
  fail(ECH_ERR_ABORTED, "the communicator was aborted");
}

bool Engine::progress() {
  obey_interrupt();
  if (active_ == 0 && direct_.task == nullptr) return false;
  bool moved = true;
  or_fail([&] { moved = try_progress(); });
  if (moved) return true;
  if (++idle_polls_ % kIdlePollsPerCheck == 0) check_watch();
  return false;
}

bool Engine::awaits_messages() const {
  return std::ranges::any_of(
      lanes_, [](const auto& lane) { return lane->active() && lane->awaits_messages(); });
}

// Polling the network is a system call: it is done rarely while only the group is waited for. It
// is done then, too, because what was sent may still be on its way out. Who has slept on the
// network looks at it once: what woke it would wake it again.
bool Engine::poll_network() {
  if (parts_.transport == nullptr) return false;
  const bool slept = std::exchange(slept_on_network_, false);
  if (!slept && !awaits_messages() && ++polls_ % kPollsPerNetworkPoll != 0) return false;
  return parts_.transport->progress();
}

bool Engine::try_progress() {
  const bool heard = poll_network();
  const bool moved = parts_.group != nullptr && parts_.group->progress();
  if (moved) stalled_since_.reset();
  if (!check_group()) return true;
  return (active_ > 0 && advance_lanes()) || moved || heard;
}

// A group that has failed reports every call as done: look before believing it.
bool Engine::check_group() {
  if (parts_.group == nullptr || parts_.group->failed() == ECH_OK) return true;
  const int member = parts_.group->unreadable();
  std::string reason = "a rank of this host failed";
  if (member >= 0) {
    const int rank = parts_.group_ranks[member];
    const std::string who =
        parts_.watch ? parts_.watch->describe(rank) : fmt::format("rank {}", rank);
    reason = fmt::format("the memory of {} could not be read", who);
  }
  fail_unless_known(parts_.group->failed(), reason);
  return false;
}

// In the order of lanes, from the one that is due next: where all are in use, oldest first.
bool Engine::advance_lanes() {
  bool moved = false;
  std::size_t next = next_lane_;
  for (std::size_t k = 0; k < lanes_.size() && failure_ == ECH_OK; ++k) {
    Segment& segment = *lanes_[next];
    next = lane_after(next);
    if (!segment.active()) continue;
    moved |= segment.advance();
    if (const Completion* bad = segment.failed()) {
      const std::string who =
          parts_.watch ? parts_.watch->describe(bad->peer) : fmt::format("rank {}", bad->peer);
      const std::string reason = parts_.transport->reason(bad->peer);
      fail_unless_known(bad->status,
                        fmt::format("{}: {} with {}{}{}", segment.operation()->label(),
                                    name(bad->status), who, reason.empty() ? "" : ": ", reason));
      return true;
    }
    if (segment.ended()) end_segment(segment);
  }
  if (moved) stalled_since_.reset();
  if (moved && failure_ == ECH_OK) admit();
  return moved;
}

void Engine::end_segment(Segment& segment) {
  if (!check_group()) return;
  Operation& operation = *segment.operation();
  if (operation.task_.program->message_time.count() > 0)
    segment_took_ = Clock::now() - segment.began();
  segment.release();
  --active_;
  activity_.advance(operation.sequence_, static_cast<std::uint32_t>(++operation.ended_));
  if (operation.ended_ == operation.segments_) finish(operation, ECH_OK);
}

void Engine::finish(Operation& operation, ech_status status) {
  operation.done_ = true;
  operation.status_ = status;
  if (status == ECH_OK) activity_.end(operation.sequence_);
  if (parts_.recorder != nullptr) record(operation, status);
  if (!operation.fence_) return count(operation.task_);
  if (fence_ == &operation) fence_ = nullptr;
  release(&operation);
}

void Engine::count(const Task& task) {
  const Signature::Kind kind = task.signature.kind;
  if (kind == Signature::kStatistics || kind == Signature::kTimeline) return;  // nobody's call
  ++counters_.operations;
  counters_.bytes += task.bytes;
}

void Engine::fail(ech_status status, const std::string& text) {
  if (failure_ != ECH_OK) return;
  failure_ = status;
  failure_text_ = text;
  if (parts_.transport != nullptr) {
    parts_.transport->abort();
    parts_.transport->progress();
  }
  if (parts_.group != nullptr) {
    parts_.group->abort();
    parts_.group->progress();
  }
  parts_.memory->settle();
  for (auto& lane : lanes_) {
    if (!lane->active()) continue;
    Operation& operation = *lane->operation();
    lane->release();
    if (!operation.done_) finish(operation, status);
  }
  for (Operation* operation : queue_)
    if (!operation->done_) finish(*operation, status);
  queue_.clear();
  active_ = 0;
  if (parts_.recorder == nullptr) return;
  if (direct_.task != nullptr) record_direct();
  parts_.recorder->fails();
}

void Engine::run(const Task& task) {
  obey_interrupt();
  if (is_direct(task)) return run_direct(task);
  Operation* operation = start(task);
  wait(*operation);
  const ech_status status = operation->status_;
  release(operation);
  if (status != ECH_OK) throw Error(status, failure_text_);
}

bool Engine::is_direct(const Task& task) const {
  return task.program != nullptr && task.program->one_call && !needs_scratch(task) && !task.list &&
         task.segment >= task.count && active_ == 0 && queue_.empty() && failure_ == ECH_OK &&
         parts_.group != nullptr;
}

bool Engine::divides_directly(const Task& task) const {
  return task.op == ECH_AVG && !result_of(task.goal, task.program->units).empty();
}

void Engine::start_direct(const Task& task, int lane) {
  const Call& call = task.program->steps.front().calls.front();
  direct_parts_.clear();
  for (const Part& part : call.parts) direct_parts_.push_back(block_of(task, part));
  parts_.group->start(lane,
                      {call.action, task.dtype, task.op, task.input, task.output, direct_parts_,
                       task.signature.fingerprint(), next_turn_++, call.members, 0,
                       static_cast<int>(lanes_for(*task.program)), !divides_directly(task)});
}

void Engine::run_direct(const Task& task) {
  const int lane = static_cast<int>(skip_to_lane(*task.program));
  take_number();
  const std::uint64_t sequence = next_sequence_++;
  direct_ = {&task, sequence, 0};
  if (parts_.recorder != nullptr) direct_.called = nanoseconds(Clock::now());
  or_fail([&] {
    start_direct(task, lane);
    activity_.begin(sequence, task.signature);
    if (!poll_direct(lane)) wait_direct(task, sequence, lane);
    check_group();
  });
  if (parts_.recorder != nullptr && failure_ == ECH_OK) record_direct();
  direct_.task = nullptr;
  count(task);
  if (failure_ != ECH_OK) throw Error(failure_, failure_text_);
  activity_.end(sequence);
  stalled_since_.reset();
  if (divides_directly(task)) divide(task.dtype, task.output, task.count, task.goal.size);
}

void Engine::record(const Operation& operation, ech_status status) {
  OperationRecord record = record_of(operation.task_, operation.sequence_);
  record.called = nanoseconds(operation.called_);
  record.began = operation.began_;
  record.segments = static_cast<std::uint32_t>(operation.segments_);
  record.status = status;
  parts_.recorder->add(record);
}

void Engine::record_direct() {
  OperationRecord record = record_of(*direct_.task, direct_.sequence);
  record.called = record.began = direct_.called;
  record.status = failure_;
  record.direct = true;
  parts_.recorder->add(record);
}

bool Engine::poll_direct(int lane) {
  bool done = parts_.group->done(lane);
  for (int polls = 0; polls < parts_.patience && !done; ++polls) {
    relax();
    done = parts_.group->poll(lane);
  }
  return done;
}

std::span<const std::byte> Engine::board(int rank) const {
  const int member = parts_.group_ranks.index_of(rank);
  if (parts_.group == nullptr || member < 0) return {};
  return parts_.group->board(member);
}

void Engine::note(const Signature& signature) {
  activity_.begin(next_sequence_, signature);
  activity_.end(next_sequence_++);
}

}  // namespace echelon
