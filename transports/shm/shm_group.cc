// SPDX-License-Identifier: Apache-2.0
// Connects the segments of a group and drives its lanes.
#include "transports/shm/shm_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "lib/base/error.h"
#include "transports/shm/address.h"
#include "transports/shm/bell.h"
#include "transports/shm/lane.h"

namespace echelon {
namespace {

using shm::Address;
using shm::Bell;
using shm::Lane;
using shm::Segment;
using shm::Team;

constexpr std::size_t kProgressBytes = std::size_t{256} << 10;  // moved by one progress() at most
constexpr int kMaxLanes = 64;

// Whether the descriptor is gone, and not hidden from us: with its process, or before it.
bool has_left(const Address& peer) {
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!process && errno == ESRCH) return true;
  pollfd ended{process.get(), POLLIN, 0};
  if (process && poll(&ended, 1, 0) == 1) return true;
  return access(fmt::format("/proc/{}/fd", peer.pid).c_str(), X_OK) == 0;
}

Segment open_segment(const Address& own, const Address& peer, const shm::SegmentShape& shape) {
  const std::string who = fmt::format("shared memory of pid {}", peer.pid);
  if (peer.host != own.host) throw Error(ECH_ERR_UNSUPPORTED, who + ": it is on another host");
  if (peer.pid_namespace != own.pid_namespace)
    throw Error(
        ECH_ERR_UNSUPPORTED,
        who + ": it is in another pid namespace; start the ranks of a host in one container");
  if (peer.net_namespace != own.net_namespace)
    throw Error(ECH_ERR_UNSUPPORTED,
                who +
                    ": it is in another network namespace, where we cannot wake it; start the "
                    "ranks of a host in one container");
  Fd fd(open(fmt::format("/proc/{}/fd/{}", peer.pid, peer.fd).c_str(), O_RDWR | O_CLOEXEC));
  if (fd) return Segment::map(std::move(fd), shape, peer.nonce);
  const int error = errno;
  if (error == ENOENT && has_left(peer))
    throw Error(ECH_ERR_PEER, who + ": that rank has ended or left");
  if (error == EACCES || error == EPERM || error == ENOENT)
    throw Error(
        ECH_ERR_UNSUPPORTED,
        fmt::format("{}: cannot be opened through /proc: {}; the ranks of a host must run as "
                    "one user, with /proc mounted without hidepid",
                    who, std::strerror(error)));
  throw system_error(who + ": cannot be opened through /proc", error);
}

class ShmGroup final : public GroupEngine {
 public:
  ShmGroup(std::unique_ptr<Team> team, std::unique_ptr<Bell> bell, const ShmOptions& options)
      : options_(options), team_(std::move(team)), bell_(std::move(bell)) {
    lanes_.reserve(options_.shape.lanes);
    for (int i = 0; i < options_.shape.lanes; ++i)
      lanes_.emplace_back(*team_, *bell_, options_.thresholds, i);
    team_->announce(*bell_);  // that we have tried to read the others
  }

  int lanes() const override { return options_.shape.lanes; }
  bool done(int lane) const override { return failed() != ECH_OK || !lanes_[lane].busy(); }
  ech_status failed() const override { return failed_.load(std::memory_order_acquire); }
  int unreadable() const override { return failed() == team_->failure ? team_->unreadable : -1; }
  std::uint64_t bytes() const override { return team_->bytes_taken; }
  std::span<std::byte> board(int member) override { return team_->segments[member].board(); }
  shm::KnownWays ways() const { return team_->ways(); }

  void start(int lane, const GroupWork& work) override {
    assert(lane >= 0 && lane < lanes() && done(lane));
    if (failed() != ECH_OK) return;
    lanes_[lane].start(work);
    poll(lane);
  }

  bool progress() override;

  bool poll(int at) override {
    if (failed() != ECH_OK) return true;
    Lane& lane = lanes_[at];
    while (lane.advance() && lane.moved() < kProgressBytes) continue;
    lane.take_moved();
    if (team_->failure != ECH_OK) fail(team_->failure);
    return !lane.busy();
  }

  void abort() override;

  int fd() const override { return bell_->fd(); }
  bool arm() override;
  void disarm() override { bell_->disarm(); }
  void sleep(std::chrono::nanoseconds limit) override { bell_->sleep(limit); }

 private:
  void fail(ech_status status) {
    ech_status ok = ECH_OK;
    failed_.compare_exchange_strong(ok, status);
  }

  const ShmOptions options_;
  const std::unique_ptr<Team> team_;
  const std::unique_ptr<Bell> bell_;
  std::vector<Lane> lanes_;
  std::size_t first_ = 0;  // the lane to begin with: all get their turn
  std::atomic<ech_status> failed_{ECH_OK};
};

bool ShmGroup::progress() {
  bool any = false;
  if (failed() != ECH_OK) {
    for (Lane& lane : lanes_) any |= lane.cancel();
    return any;
  }
  std::size_t moved = 0;
  std::size_t at = first_;
  for (std::size_t i = 0; i < lanes_.size() && moved < kProgressBytes; ++i) {
    Lane& lane = lanes_[at];
    if (++at == lanes_.size()) at = 0;  // a division would be most of the time of an idle poll
    if (!lane.busy()) continue;
    while (lane.moved() + moved < kProgressBytes && lane.advance()) any = true;
    moved += lane.take_moved();
  }
  if (++first_ == lanes_.size()) first_ = 0;
  if (team_->failure != ECH_OK) fail(team_->failure);
  return any;
}

void ShmGroup::abort() {
  fail(ECH_ERR_ABORTED);
  bell_->ring_self();
}

bool ShmGroup::arm() {
  bell_->arm(std::ranges::any_of(lanes_, &Lane::awaits_ends));
  bool news = failed() != ECH_OK;
  for (Lane& lane : lanes_) news = news || lane.ready();
  if (news) bell_->stay_awake();
  return !news;
}

class ShmMedium final : public GroupMedium {
 public:
  explicit ShmMedium(const ShmOptions& options)
      : options_(options), segment_(Segment::create(options.shape)) {
    own_ = {shm::host_identity(),
            shm::namespace_identity("pid"),
            shm::namespace_identity("net"),
            static_cast<std::uint32_t>(getpid()),
            static_cast<std::uint32_t>(segment_.fd()),
            segment_.header().nonce,
            reinterpret_cast<std::uint64_t>(&segment_.header())};
    bell_ = std::make_unique<Bell>(segment_.bell(), own_.nonce);
  }

  std::string address() const override { return own_.pack(); }

  std::unique_ptr<GroupEngine> connect(int self, std::span<const std::string> members) override {
    const std::size_t least = members.size() * shm::kLine;
    if (options_.shape.slot_bytes < least)
      throw invalid(fmt::format("slots of {} bytes do not suffice for {} members, expected {}",
                                options_.shape.slot_bytes, members.size(), least));
    if (self < 0 || static_cast<std::size_t>(self) >= members.size())
      throw invalid(fmt::format("member {} of a group of {}", self, members.size()));
    std::vector<Segment> segments;
    std::vector<shm::Member> team;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Address peer = Address::parse(members[m]);
      const bool own = static_cast<int>(m) == self;
      if (own != (peer.nonce == own_.nonce))
        throw invalid(fmt::format("member {} has {} address", m, own ? "not our" : "our"));
      team.push_back({peer.pid, peer.nonce, peer.header});
      segments.push_back(own ? std::move(segment_) : open_segment(own_, peer, options_.shape));
    }
    return std::make_unique<ShmGroup>(
        std::make_unique<Team>(self, std::move(segments), std::move(team), options_.known),
        std::move(bell_), options_);
  }

 private:
  ShmOptions options_;
  Segment segment_;
  std::unique_ptr<Bell> bell_;
  Address own_;
};

void check(const shm::SegmentShape& shape) {
  if (shape.lanes < 1 || shape.lanes > kMaxLanes)
    throw invalid(fmt::format("{} lanes, expected 1 to {}", shape.lanes, kMaxLanes));
  if (shape.slot_bytes == 0 || shape.slot_bytes % 4096 != 0)
    throw invalid(fmt::format("slots of {} bytes, expected a multiple of 4096", shape.slot_bytes));
}

}  // namespace

std::unique_ptr<GroupMedium> make_shm_group(const ShmOptions& options) {
  check(options.shape);
  return std::make_unique<ShmMedium>(options);
}

shm::KnownWays ways_found(const GroupEngine& engine) {
  return dynamic_cast<const ShmGroup&>(engine).ways();
}

}  // namespace echelon
