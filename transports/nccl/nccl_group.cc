// SPDX-License-Identifier: Apache-2.0
#include "transports/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "lib/base/dtype.h"
#include "transports/cuda/stream_news.h"
#include "transports/nccl/nccl_comm.h"
#include "transports/nccl/registrations.h"

namespace echelon {
namespace {

// An average is a sum: the engine divides.
NcclOp op_of(ech_op op) { return nccl_op(op == ECH_AVG ? ECH_SUM : op); }

// A call that waits for its turn.
struct Waiting {
  int lane;
  GroupWork work;
  std::vector<GroupPart> parts;
};

// Where the parts of a call lie on all members alike: what an owner does with its own is its
// affair.
std::size_t shared_offset(GroupAction action, const GroupPart& part) {
  return action == GroupAction::kReduceScatter ? part.input_offset : part.output_offset;
}

// One part per member, in their order, of equal size, one after the other: what NCCL's own
// reduce-scatter and allgather do.
bool is_regular(GroupAction action, std::span<const GroupPart> parts, int size) {
  if (action == GroupAction::kAllreduce || static_cast<int>(parts.size()) != size) return false;
  const std::size_t begin = shared_offset(action, parts[0]), bytes = parts[0].bytes;
  for (int k = 0; k < size; ++k) {
    const GroupPart& p = parts[static_cast<std::size_t>(k)];
    if (p.owner != k || p.bytes != bytes || bytes == 0 ||
        shared_offset(action, p) != begin + static_cast<std::size_t>(k) * bytes)
      return false;
  }
  return true;
}

NcclUniqueId id_from(const std::string& bytes) {
  NcclUniqueId id;
  if (bytes.size() != sizeof id.bytes)
    throw invalid("the first member of a group of GPUs gave no id of NCCL");
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  return id;
}

// Are told when this ends.
struct Complaints {
  ~Complaints() {
    for (const std::string& line : registrations.take_complaints()) log(ECH_LOG_WARN, line);
  }
  NcclRegistrations& registrations;
  const Log& log;
};

class NcclGroup final : public GroupEngine {
 public:
  NcclGroup(const NcclGroupOptions& options, std::span<const NcclMembership> groups)
      : nccl_(*options.nccl),
        device_(*options.device),
        registers_(options.registers),
        log_(options.log),
        registrations_(nccl_, device_),
        news_(device_),
        stream_(make_stream(device_)),
        lanes_(static_cast<std::size_t>(options.lanes)) {
    for (const NcclMembership& group : groups)
      circles_.push_back(std::make_unique<Circle>(group, nccl_, device_));
    for (Lane& lane : lanes_) lane.event = make_event(device_);
    nothing_ = allocate_device(device_, 1);
  }
  ~NcclGroup() override { end(); }

  int lanes() const override { return static_cast<int>(lanes_.size()); }
  void start(int lane, const GroupWork& work) override;
  bool done(int lane) const override {
    return aborted_.load(std::memory_order_acquire) || !lanes_[static_cast<std::size_t>(lane)].busy;
  }
  bool progress() override;
  void abort() override {
    aborted_.store(true, std::memory_order_release);
    news_.ring();
  }
  ech_status failed() const override {
    return aborted_.load(std::memory_order_acquire) ? ECH_ERR_ABORTED : ECH_OK;
  }
  std::span<std::byte> board(int) override { return {}; }
  std::uint64_t bytes() const override { return bytes_; }

  int fd() const override { return news_.fd(); }
  bool arm() override;
  void disarm() override { news_.quiet(); }
  void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }

 private:
  struct Lane {
    OwnedEvent event;  // after the call
    bool busy = false, called = false;
  };

  // One of the groups.
  struct Circle {
    Circle(const NcclMembership& group, const NcclLibrary& nccl, const DeviceContext& device)
        : id(id_from(group.id)), self(group.self), size(group.size), comm(nccl, device) {}
    const NcclUniqueId id;
    const int self, size;
    NcclCommunicator comm;
  };

  Circle& circle_of(const GroupWork& work);
  bool make_calls();
  bool call_next();
  bool take_up();
  void call(Circle& circle, const Waiting& next);
  void call_regular(const Circle& circle, const GroupWork& work);
  void call_part(const Circle& circle, const GroupWork& work, const GroupPart& part);
  bool look_at_lanes();
  void hear_of_failures() const;
  bool end() noexcept;

  const NcclLibrary& nccl_;
  const DeviceContext& device_;
  const bool registers_;
  const Log log_;
  std::vector<std::unique_ptr<Circle>> circles_;  // the smaller first
  NcclRegistrations registrations_;               // of the callers' memory
  StreamNews news_;
  OwnedStream stream_;
  DeviceBytes nothing_;  // for a call without parts
  std::vector<Lane> lanes_;
  std::map<std::uint64_t, Waiting> waiting_;  // by turn
  std::uint64_t turn_ = 0;                    // of the next call
  int calling_ = -1;                          // the lane whose call NCCL has not taken up yet
  Circle* called_ = nullptr;                  // and of whom it is
  std::uint64_t bytes_ = 0;
  std::atomic<bool> aborted_ = false;
  bool ended_ = false;
};

void NcclGroup::start(int lane, const GroupWork& work) {
  Waiting next{lane, work, {work.parts.begin(), work.parts.end()}};
  next.work.parts = next.parts;
  lanes_[static_cast<std::size_t>(lane)].busy = true;
  waiting_.emplace(work.turn, std::move(next));
  progress();
}

bool NcclGroup::progress() {
  if (aborted_.load(std::memory_order_acquire)) return end();
  if (!registers_) return make_calls();
  registrations_.refresh();
  const Complaints complaints{registrations_, log_};
  const std::lock_guard lock(registrations_.mutex());
  return make_calls();
}

bool NcclGroup::make_calls() {
  bool moved = false;
  while (call_next()) moved = true;
  return look_at_lanes() || moved;
}

NcclGroup::Circle& NcclGroup::circle_of(const GroupWork& work) {
  if (circles_.size() == 1) return *circles_.front();
  const auto at = std::ranges::find_if(
      circles_, [&](const auto& circle) { return circle->size == work.members; });
  if (at == circles_.end()) throw invalid(fmt::format("no group of {} GPUs", work.members));
  return **at;
}

// One step towards the call whose turn it is. False when there is none, or NCCL is not ready.
bool NcclGroup::call_next() {
  if (calling_ >= 0) return take_up();
  const auto next = waiting_.find(turn_);
  if (next == waiting_.end()) return false;
  Circle& circle = circle_of(next->second.work);
  if (!circle.comm.started()) circle.comm.start(circle.id, circle.self, circle.size);
  if (!circle.comm.ready()) return false;
  registrations_.know(circle.comm.get(), next->second.work.input);
  registrations_.know(circle.comm.get(), next->second.work.output);
  if (!circle.comm.ready()) return false;
  call(circle, next->second);
  calling_ = next->second.lane;
  called_ = &circle;
  waiting_.erase(next);
  ++turn_;
  return true;
}

// Whether what was called last is in the stream.
bool NcclGroup::take_up() {
  if (!called_->comm.ready()) return false;
  Lane& lane = lanes_[static_cast<std::size_t>(calling_)];
  const DeviceScope scope(device_);
  device_.check(device_.cuda().event_record(lane.event.get(), stream_.get()), "cuEventRecord");
  lane.called = true;
  calling_ = -1;
  return true;
}

void NcclGroup::call(Circle& circle, const Waiting& next) {
  const GroupWork& work = next.work;
  NcclCommunicator& comm = circle.comm;
  const DeviceScope scope(device_);
  comm.begin();
  if (next.parts.empty()) {
    comm.check(nccl_.all_reduce(nothing_.get(), nothing_.get(), 1, kNcclUint8, kNcclMax, comm.get(),
                                stream_.get()),
               "ncclAllReduce");
  } else if (is_regular(work.action, next.parts, circle.size)) {
    call_regular(circle, work);
  } else {
    for (const GroupPart& part : next.parts)
      if (part.bytes > 0) call_part(circle, work, part);
  }
  comm.end();
}

void NcclGroup::call_regular(const Circle& circle, const GroupWork& work) {
  const NcclCommunicator& comm = circle.comm;
  const GroupPart& first = work.parts.front();
  const GroupPart& own = work.parts[static_cast<std::size_t>(circle.self)];
  const std::size_t count = first.bytes / size_of(work.dtype);
  bytes_ += first.bytes * static_cast<std::size_t>(circle.size - 1);
  if (work.action == GroupAction::kReduceScatter)
    comm.check(nccl_.reduce_scatter(work.input + first.input_offset,
                                    work.output + own.output_offset, count, nccl_type(work.dtype),
                                    op_of(work.op), comm.get(), stream_.get()),
               "ncclReduceScatter");
  else
    comm.check(nccl_.all_gather(work.input + own.input_offset, work.output + first.output_offset,
                                count, nccl_type(work.dtype), comm.get(), stream_.get()),
               "ncclAllGather");
}

void NcclGroup::call_part(const Circle& circle, const GroupWork& work, const GroupPart& part) {
  const NcclCommunicator& comm = circle.comm;
  const std::byte* in = work.input + part.input_offset;
  std::byte* out = work.output == nullptr ? nullptr : work.output + part.output_offset;
  const std::size_t count = part.bytes / size_of(work.dtype);
  const NcclType type = nccl_type(work.dtype);
  const bool owner = part.owner == circle.self;
  if (work.action == GroupAction::kAllreduce) {
    bytes_ += part.bytes * 2;
    comm.check(nccl_.all_reduce(in, out, count, type, op_of(work.op), comm.get(), stream_.get()),
               "ncclAllReduce");
  } else if (work.action == GroupAction::kReduceScatter) {
    if (owner) bytes_ += part.bytes;
    comm.check(nccl_.reduce(in, owner ? out : nullptr, count, type, op_of(work.op), part.owner,
                            comm.get(), stream_.get()),
               "ncclReduce");
  } else {
    if (!owner) bytes_ += part.bytes;
    comm.check(
        nccl_.broadcast(owner ? in : out, out, count, type, part.owner, comm.get(), stream_.get()),
        "ncclBroadcast");
  }
}

bool NcclGroup::look_at_lanes() {
  bool moved = false;
  for (Lane& lane : lanes_) {
    if (!lane.called) continue;
    const DeviceScope scope(device_);
    const CudaResult result = device_.cuda().event_query(lane.event.get());
    if (result == kCudaNotReady) continue;
    device_.check(result, "a call of NCCL");
    lane.busy = lane.called = false;
    moved = true;
  }
  if (std::ranges::any_of(lanes_, &Lane::called)) hear_of_failures();
  return moved;
}

// A call that fails while it is under way never ends; NCCL tells of it who asks.
void NcclGroup::hear_of_failures() const {
  for (const auto& circle : circles_)
    if (circle->comm.started()) circle->comm.ready();
}

// While NCCL makes its communicator, or takes up a call, nothing tells when to look again.
bool NcclGroup::arm() {
  if (aborted_.load(std::memory_order_acquire) || progress() || calling_ >= 0 ||
      waiting_.contains(turn_))
    return false;
  const DeviceScope scope(device_);
  const bool busy = std::ranges::any_of(lanes_, &Lane::called);
  if (busy) news_.ring_after(stream_.get());
  return true;
}

// After an abort: true the first time.
bool NcclGroup::end() noexcept {
  if (ended_) return false;
  ended_ = true;
  {
    const std::lock_guard lock(registrations_.mutex());
    for (const auto& circle : circles_) registrations_.forget(circle->comm.get());
  }
  // In a group, so that the calls of all are told to end before the end of any is waited for.
  nccl_.group_start();
  for (const auto& circle : circles_) circle->comm.abort();
  nccl_.group_end();
  CudaContext context = nullptr;
  if (device_.cuda().ctx_push_current(device_.context()) == kCudaSuccess) {
    device_.cuda().stream_synchronize(stream_.get());
    device_.cuda().ctx_pop_current(&context);
  }
  waiting_.clear();
  calling_ = -1;
  for (Lane& lane : lanes_) lane.busy = lane.called = false;
  return true;
}

class NcclMedium final : public GroupMedium {
 public:
  NcclMedium(const NcclGroupOptions& options, bool first)
      : options_(options), address_(first ? new_nccl_id(*options.nccl) : "") {}

  std::string address() const override { return address_; }

  std::unique_ptr<GroupEngine> connect(int self, std::span<const std::string> members) override {
    const NcclMembership group{members.empty() ? "" : members[0], self,
                               static_cast<int>(members.size())};
    return join_nccl(options_, {&group, 1});
  }

 private:
  const NcclGroupOptions options_;
  const std::string address_;
};

}  // namespace

std::string new_nccl_id(const NcclLibrary& nccl) {
  NcclUniqueId id;
  const NcclResult result = nccl.get_unique_id(&id);
  if (result != kNcclSuccess) throw nccl_error(nccl, result, "ncclGetUniqueId", nullptr);
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<GroupEngine> join_nccl(const NcclGroupOptions& options,
                                       std::span<const NcclMembership> groups) {
  return std::make_unique<NcclGroup>(options, groups);
}

std::unique_ptr<GroupMedium> make_nccl_group(const NcclGroupOptions& options, bool first) {
  return std::make_unique<NcclMedium>(options, first);
}

}  // namespace echelon
