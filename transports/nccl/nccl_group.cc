// SPDX-License-Identifier: Apache-2.0
#include "transports/nccl/nccl_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <vector>

#include "lib/base/dtype.h"
#include "transports/cuda/stream_news.h"
#include "transports/nccl/nccl_comm.h"

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

class NcclGroup final : public GroupEngine {
 public:
  NcclGroup(const NcclGroupOptions& options, const NcclUniqueId& id, int self, int size)
      : nccl_(*options.nccl),
        device_(*options.device),
        id_(id),
        self_(self),
        size_(size),
        comm_(nccl_, device_),
        news_(device_),
        stream_(make_stream(device_)),
        lanes_(static_cast<std::size_t>(options.lanes)) {
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

  bool call_next();
  void call(const Waiting& next);
  void call_regular(const GroupWork& work);
  void call_part(const GroupWork& work, const GroupPart& part);
  bool look_at_lanes();
  bool end() noexcept;

  const NcclLibrary& nccl_;
  const DeviceContext& device_;
  const NcclUniqueId id_;
  const int self_, size_;
  NcclCommunicator comm_;
  StreamNews news_;
  OwnedStream stream_;
  DeviceBytes nothing_;  // for a call without parts
  std::vector<Lane> lanes_;
  std::map<std::uint64_t, Waiting> waiting_;  // by turn
  std::uint64_t turn_ = 0;                    // of the next call
  int calling_ = -1;                          // the lane whose call NCCL has not taken up yet
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
  bool moved = false;
  while (call_next()) moved = true;
  return look_at_lanes() || moved;
}

// One step towards the call whose turn it is. False when there is none, or NCCL is not ready.
bool NcclGroup::call_next() {
  const auto next = waiting_.find(turn_);
  if (next == waiting_.end() && calling_ < 0) return false;
  if (!comm_.started()) comm_.start(id_, self_, size_);
  if (!comm_.ready()) return false;
  if (calling_ >= 0) {
    Lane& lane = lanes_[static_cast<std::size_t>(calling_)];
    const DeviceScope scope(device_);
    device_.check(device_.cuda().event_record(lane.event.get(), stream_.get()), "cuEventRecord");
    lane.called = true;
    calling_ = -1;
    return true;
  }
  call(next->second);
  calling_ = next->second.lane;
  waiting_.erase(next);
  ++turn_;
  return true;
}

void NcclGroup::call(const Waiting& next) {
  const GroupWork& work = next.work;
  const DeviceScope scope(device_);
  comm_.begin();
  if (next.parts.empty()) {
    comm_.check(nccl_.all_reduce(nothing_.get(), nothing_.get(), 1, kNcclUint8, kNcclMax,
                                 comm_.get(), stream_.get()),
                "ncclAllReduce");
  } else if (is_regular(work.action, next.parts, size_)) {
    call_regular(work);
  } else {
    for (const GroupPart& part : next.parts)
      if (part.bytes > 0) call_part(work, part);
  }
  comm_.end();
}

void NcclGroup::call_regular(const GroupWork& work) {
  const GroupPart& first = work.parts.front();
  const GroupPart& own = work.parts[static_cast<std::size_t>(self_)];
  const std::size_t count = first.bytes / size_of(work.dtype);
  bytes_ += first.bytes * static_cast<std::size_t>(size_ - 1);
  if (work.action == GroupAction::kReduceScatter)
    comm_.check(nccl_.reduce_scatter(work.input + first.input_offset,
                                     work.output + own.output_offset, count, nccl_type(work.dtype),
                                     op_of(work.op), comm_.get(), stream_.get()),
                "ncclReduceScatter");
  else
    comm_.check(nccl_.all_gather(work.input + own.input_offset, work.output + first.output_offset,
                                 count, nccl_type(work.dtype), comm_.get(), stream_.get()),
                "ncclAllGather");
}

void NcclGroup::call_part(const GroupWork& work, const GroupPart& part) {
  const std::byte* in = work.input + part.input_offset;
  std::byte* out = work.output + part.output_offset;
  const std::size_t count = part.bytes / size_of(work.dtype);
  const NcclType type = nccl_type(work.dtype);
  const bool owner = part.owner == self_;
  if (work.action == GroupAction::kAllreduce) {
    bytes_ += part.bytes * 2;
    comm_.check(nccl_.all_reduce(in, out, count, type, op_of(work.op), comm_.get(), stream_.get()),
                "ncclAllReduce");
  } else if (work.action == GroupAction::kReduceScatter) {
    if (owner) bytes_ += part.bytes;
    comm_.check(nccl_.reduce(in, owner ? out : nullptr, count, type, op_of(work.op), part.owner,
                             comm_.get(), stream_.get()),
                "ncclReduce");
  } else {
    if (!owner) bytes_ += part.bytes;
    comm_.check(
        nccl_.broadcast(owner ? in : out, out, count, type, part.owner, comm_.get(), stream_.get()),
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
  return moved;
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
  comm_.abort();
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
  explicit NcclMedium(const NcclGroupOptions& options) : options_(options) {
    if (!options_.first) return;
    NcclUniqueId id;
    const NcclResult result = options_.nccl->get_unique_id(&id);
    if (result != kNcclSuccess)
      throw nccl_error(*options_.nccl, result, "ncclGetUniqueId", nullptr);
    address_.assign(id.bytes, sizeof id.bytes);
  }

  std::string address() const override { return address_; }

  std::unique_ptr<GroupEngine> connect(int self, std::span<const std::string> members) override {
    NcclUniqueId id;
    if (members.empty() || members[0].size() != sizeof id.bytes)
      throw invalid("the first member of a group of GPUs gave no id of NCCL");
    std::memcpy(id.bytes, members[0].data(), sizeof id.bytes);
    return std::make_unique<NcclGroup>(options_, id, self, static_cast<int>(members.size()));
  }

 private:
  const NcclGroupOptions options_;
  std::string address_;
};

}  // namespace

std::unique_ptr<GroupMedium> make_nccl_group(const NcclGroupOptions& options) {
  return std::make_unique<NcclMedium>(options);
}

}  // namespace echelon
