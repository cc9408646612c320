// SPDX-License-Identifier: Apache-2.0
// Invariants
//  1. All members of a group hold the same Hub, found by the list of their addresses. Everything
//     in it is guarded by its mutex, so there are no races to think about.
//  2. A member cannot be one call ahead of another on a lane: a call ends for all at once, when
//     the last has arrived.
#include "transports/loopback/loopback_group.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/base/fd.h"
#include "lib/base/join.h"
#include "lib/reduce/reduce.h"

namespace echelon {
namespace {

struct Arrival {
  GroupWork work;
  bool waiting = false;
  std::uint64_t taken = 0;  // bytes from other members
};

struct Member {
  int fd = -1;
  bool armed = false;
  std::uint64_t ended = 0;  // its calls
};

struct Hub {
  std::mutex mutex;
  std::vector<Member> members;
  std::vector<std::vector<Arrival>> arrivals;  // by lane and member
  std::vector<std::byte> sum;

  Hub(std::size_t size, int lanes) : members(size), arrivals(lanes, std::vector<Arrival>(size)) {}
};

void give(Arrival& to, const GroupPart& part, const std::byte* bytes) {
  std::byte* out = to.work.output + part.output_offset;
  if (out != bytes) std::memcpy(out, bytes, part.bytes);
}

void gather_part(std::vector<Arrival>& members, const GroupPart& part) {
  const std::byte* from = members[part.owner].work.input + part.input_offset;
  for (std::size_t m = 0; m < members.size(); ++m) {
    give(members[m], part, from);
    if (static_cast<int>(m) != part.owner) members[m].taken += part.bytes;
  }
}

void reduce_part(Hub& hub, std::vector<Arrival>& members, std::size_t index) {
  const GroupWork& any = members.front().work;
  const GroupPart& part = any.parts[index];
  std::vector<const std::byte*> sources;
  for (const Arrival& a : members) sources.push_back(a.work.input + part.input_offset);
  hub.sum.resize(std::max(hub.sum.size(), part.bytes));
  reduce(any.dtype, any.op, sources, hub.sum.data(), part.bytes / size_of(any.dtype));
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (any.action == GroupAction::kReduceScatter && static_cast<int>(m) != part.owner) continue;
    give(members[m], members[m].work.parts[index], hub.sum.data());
    members[m].taken += part.bytes * (members.size() - 1);
  }
}

bool is_alike(const GroupPart& a, const GroupPart& b, GroupAction action) {
  const bool to_owner = action == GroupAction::kReduceScatter;
  return a.input_offset == b.input_offset && (to_owner || a.output_offset == b.output_offset) &&
         a.bytes == b.bytes && a.owner == b.owner;
}

// What group.h asks of the members, also where this engine could do without.
void check(const std::vector<Arrival>& members) {
  const GroupWork& first = members.front().work;
  for (std::size_t m = 1; m < members.size(); ++m) {
    const bool alike = std::ranges::equal(
        members[m].work.parts, first.parts,
        [&](const GroupPart& a, const GroupPart& b) { return is_alike(a, b, first.action); });
    if (!alike)
      throw Error(ECH_ERR_INTERNAL,
                  fmt::format("member {} of a group has other parts than member 0", m));
  }
}

// Everyone is here: does the call for all.
void run(Hub& hub, std::vector<Arrival>& members) {
  check(members);
  const GroupWork& any = members.front().work;
  for (std::size_t i = 0; i < any.parts.size(); ++i) {
    if (any.parts[i].bytes == 0) continue;
    if (any.action == GroupAction::kAllgather)
      gather_part(members, any.parts[i]);
    else
      reduce_part(hub, members, i);
  }
  for (Arrival& a : members) a.waiting = false;
  for (Member& m : hub.members) {
    ++m.ended;
    if (m.armed) eventfd_write(m.fd, 1);
  }
}

class LoopbackGroup final : public GroupEngine {
 public:
  LoopbackGroup(int self, std::shared_ptr<Hub> hub, Fd event)
      : self_(self), hub_(std::move(hub)), event_(std::move(event)) {
    std::lock_guard lock(hub_->mutex);
    hub_->members[self].fd = event_.get();
  }
  ~LoopbackGroup() override {
    std::lock_guard lock(hub_->mutex);
    own() = {};
    for (std::vector<Arrival>& lane : hub_->arrivals) lane[self_] = {};
  }

  int lanes() const override { return static_cast<int>(hub_->arrivals.size()); }

  void start(int lane, const GroupWork& work) override {
    assert(done(lane));
    if (failed() != ECH_OK) return;
    std::lock_guard lock(hub_->mutex);
    std::vector<Arrival>& members = hub_->arrivals[lane];
    members[self_].work = work;
    members[self_].waiting = true;
    for (const Arrival& a : members)
      if (!a.waiting) return;
    run(*hub_, members);
  }

  bool done(int lane) const override {
    if (failed() != ECH_OK) return true;
    std::lock_guard lock(hub_->mutex);
    return !hub_->arrivals[lane][self_].waiting;
  }

  bool progress() override {
    std::lock_guard lock(hub_->mutex);
    if (failed() != ECH_OK)
      for (std::vector<Arrival>& lane : hub_->arrivals) lane[self_].waiting = false;
    return std::exchange(seen_, own().ended) != own().ended;
  }

  void abort() override {
    ech_status ok = ECH_OK;
    failed_.compare_exchange_strong(ok, ECH_ERR_ABORTED);
    eventfd_write(event_.get(), 1);
  }
  ech_status failed() const override { return failed_; }
  std::span<std::byte> board(int) override { return {}; }

  std::uint64_t bytes() const override {
    std::lock_guard lock(hub_->mutex);
    std::uint64_t sum = 0;
    for (const std::vector<Arrival>& members : hub_->arrivals) sum += members[self_].taken;
    return sum;
  }

  int fd() const override { return event_.get(); }

  bool arm() override {
    std::lock_guard lock(hub_->mutex);
    if (failed() != ECH_OK || seen_ != own().ended) return false;
    return own().armed = true;
  }
  void disarm() override {
    std::lock_guard lock(hub_->mutex);
    own().armed = false;
    eventfd_t rung;
    eventfd_read(event_.get(), &rung);
  }
  void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }

 private:
  Member& own() { return hub_->members[self_]; }

  const int self_;
  const std::shared_ptr<Hub> hub_;
  const Fd event_;
  std::uint64_t seen_ = 0;  // own().ended when progress() last looked
  std::atomic<ech_status> failed_{ECH_OK};
};

std::shared_ptr<Hub> find_hub(std::span<const std::string> members, int lanes) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Hub>> hubs;
  std::lock_guard lock(mutex);
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Hub>& known = hubs[joined(members, ",")];
  std::shared_ptr<Hub> hub = known.lock();
  if (hub == nullptr) known = hub = std::make_shared<Hub>(members.size(), lanes);
  return hub;
}

class LoopbackGroupMedium final : public GroupMedium {
 public:
  explicit LoopbackGroupMedium(int lanes)
      : lanes_(lanes), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!event_) throw system_error("create event descriptor");
    static std::atomic<int> next{0};
    id_ = fmt::format("loopback {}", next++);
  }

  std::string address() const override { return id_; }

  std::unique_ptr<GroupEngine> connect(int self, std::span<const std::string> members) override {
    if (self < 0 || static_cast<std::size_t>(self) >= members.size() || members[self] != id_)
      throw invalid(fmt::format("member {} of {} has not our address", self, members.size()));
    return std::make_unique<LoopbackGroup>(self, find_hub(members, lanes_), std::move(event_));
  }

 private:
  const int lanes_;
  Fd event_;
  std::string id_;
};

}  // namespace

std::unique_ptr<GroupMedium> make_loopback_group(int lanes) {
  return std::make_unique<LoopbackGroupMedium>(lanes);
}

}  // namespace echelon
