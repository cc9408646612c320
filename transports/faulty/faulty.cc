// SPDX-License-Identifier: Apache-2.0
#include "transports/faulty/faulty.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <optional>
#include <utility>

#include "lib/base/fd.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

// One descriptor for the inner transport's news and for a time.
class Alarm {
 public:
  explicit Alarm(int inner)
      : timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
        both_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!timer_ || !both_) throw system_error("faulty: timerfd, epoll");
    for (const int fd : {inner, timer_.get()}) {
      epoll_event event{EPOLLIN, {}};
      if (epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        throw system_error("faulty: epoll");
    }
  }

  int fd() const { return both_.get(); }

  void set(std::optional<Clock::time_point> due) {
    itimerspec time{};
    if (due) {
      const auto left =
          std::max<std::chrono::nanoseconds>(*due - Clock::now(), std::chrono::microseconds(1));
      time.it_value.tv_sec = left.count() / 1'000'000'000;
      time.it_value.tv_nsec = left.count() % 1'000'000'000;
    }
    timerfd_settime(timer_.get(), 0, &time, nullptr);  // also forgets an alarm that went off
  }

 private:
  Fd timer_;
  Fd both_;
};

// Thread safety: as transport.h says.
// Invariant: an operation whose `outer` is nullptr is over for the caller; it stays until the
// inner transport is done with its data, too.
class FaultyTransport : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, FaultScript script, std::size_t ranks)
      : script_(std::move(script)), peers_(ranks), alarm_(inner->fd()), inner_(std::move(inner)) {
    for (const Fault& fault : script_) begin_at_once(fault);
  }

  void send(int peer, Tag tag, std::span<const std::byte> data, Completion& completion) override;
  void receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) override;
  bool progress() override;
  void abort() override;
  bool all_left() override { return inner_->all_left(); }
  Counters counters() const override { return counters_; }
  std::string reason(int peer) const override { return inner_->reason(peer); }

  int fd() const override { return alarm_.fd(); }
  bool arm() override;
  void disarm() override;
  void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }

 private:
  struct Peer {
    Counters sent;
    bool cut = false;
    bool failed = false;
  };

  struct Operation {
    Completion* outer;
    int peer;
    Tag tag;
    std::vector<std::byte> data;
    bool receives = false;
    std::byte* target = nullptr;
    Clock::time_point due{};
    bool handed_on = false;
    Completion inner{};
  };

  struct Effect {
    bool drop = false;
    std::chrono::microseconds delay{0};
  };

  void begin_at_once(const Fault& fault);
  Effect effect_on(int peer, std::size_t bytes);
  bool refused(int peer, Completion& completion) const;
  bool can_move(const Operation& operation, Clock::time_point now) const;
  void move(Operation& operation);
  static void settle(Operation& operation, ech_status status);
  void stop();

  const FaultScript script_;
  std::vector<Peer> peers_;
  std::list<Operation> operations_;  // the inner transport has pointers into them
  Counters counters_;
  Alarm alarm_;
  bool stopped_ = false;
  std::atomic<bool> aborting_ = false;
  std::unique_ptr<Transport> inner_;  // goes first: it may still use operations_
};

// Those that stop receives, too, do not wait for the first message sent.
void FaultyTransport::begin_at_once(const Fault& fault) {
  if (fault.after_messages > 0 || fault.after_bytes > 0) return;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (fault.peer != -1 && fault.peer != static_cast<int>(i)) continue;
    if (fault.kind == FaultKind::kCut) peers_[i].cut = true;
    if (fault.kind == FaultKind::kFail) peers_[i].failed = true;
  }
}

// What the script has for a message of so many bytes to the peer. Latches what never ends.
FaultyTransport::Effect FaultyTransport::effect_on(int peer, std::size_t bytes) {
  Effect effect;
  Peer& to = peers_[peer];
  for (const Fault& fault : script_) {
    if (fault.peer != -1 && fault.peer != peer) continue;
    if (to.sent.messages < fault.after_messages) continue;
    if (fault.after_bytes > 0 && to.sent.bytes + bytes <= fault.after_bytes) continue;
    if (fault.kind == FaultKind::kDelay) effect.delay += fault.delay;
    if (fault.kind == FaultKind::kDrop) effect.drop = true;
    if (fault.kind == FaultKind::kCut) to.cut = true;
    if (fault.kind == FaultKind::kFail) to.failed = true;
  }
  return effect;
}

bool FaultyTransport::refused(int peer, Completion& completion) const {
  if (!stopped_ && !peers_[peer].failed) return false;
  completion = {true, stopped_ ? ECH_ERR_ABORTED : ECH_ERR_PEER, peer};
  return true;
}

void FaultyTransport::send(int peer, Tag tag, std::span<const std::byte> data,
                           Completion& completion) {
  completion = {};
  const Effect effect = effect_on(peer, data.size());
  if (refused(peer, completion)) return;
  for (Counters* counters : {&counters_, &peers_[peer].sent}) {
    ++counters->messages;
    counters->bytes += data.size();
  }
  if (effect.drop) {
    completion = {true, ECH_OK, peer};
    return;
  }
  operations_.push_back({&completion, peer, tag, {data.begin(), data.end()}});
  operations_.back().due = Clock::now() + effect.delay;
  if (can_move(operations_.back(), Clock::now())) move(operations_.back());
}

void FaultyTransport::receive(int peer, Tag tag, std::span<std::byte> data,
                              Completion& completion) {
  completion = {};
  if (refused(peer, completion)) return;
  operations_.push_back(
      {&completion, peer, tag, std::vector<std::byte>(data.size()), true, data.data()});
  if (!peers_[peer].cut) move(operations_.back());
}

bool FaultyTransport::can_move(const Operation& operation, Clock::time_point now) const {
  const Peer& peer = peers_[operation.peer];
  if (peer.failed) return operation.outer != nullptr;
  if (peer.cut || operation.outer == nullptr) return false;
  return operation.handed_on ? operation.inner.done : operation.due <= now;
}

void FaultyTransport::move(Operation& operation) {
  if (peers_[operation.peer].failed) return settle(operation, ECH_ERR_PEER);
  if (operation.handed_on) return settle(operation, operation.inner.status);
  operation.handed_on = true;
  if (operation.receives) {
    inner_->receive(operation.peer, operation.tag, operation.data, operation.inner);
  } else {
    inner_->send(operation.peer, operation.tag, operation.data, operation.inner);
  }
}

void FaultyTransport::settle(Operation& operation, ech_status status) {
  if (status == ECH_OK && operation.receives) {
    std::copy(operation.data.begin(), operation.data.end(), operation.target);
  }
  *std::exchange(operation.outer, nullptr) = {true, status, operation.peer};
}

bool FaultyTransport::progress() {
  if (stopped_) return false;
  bool moved = inner_->progress();
  if (aborting_.load(std::memory_order_acquire)) {
    stop();
    return true;
  }
  const auto now = Clock::now();
  for (Operation& operation : operations_) {
    if (!can_move(operation, now)) continue;
    move(operation);
    moved = true;
  }
  std::erase_if(operations_, [](const Operation& operation) {
    return operation.outer == nullptr && (!operation.handed_on || operation.inner.done);
  });
  return moved;
}

void FaultyTransport::abort() {
  aborting_.store(true, std::memory_order_release);
  inner_->abort();
}

// The inner transport need not have stopped yet: it has no memory but ours.
void FaultyTransport::stop() {
  stopped_ = true;
  for (Operation& operation : operations_) {
    if (operation.outer != nullptr) settle(operation, ECH_ERR_ABORTED);
  }
}

bool FaultyTransport::arm() {
  if (stopped_) return true;
  if (aborting_.load(std::memory_order_acquire)) return false;
  const auto now = Clock::now();
  std::optional<Clock::time_point> due;
  for (const Operation& operation : operations_) {
    if (can_move(operation, now)) return false;
    const bool waits = !operation.handed_on && !peers_[operation.peer].cut;
    if (waits) due = std::min(due.value_or(operation.due), operation.due);
  }
  if (!inner_->arm()) return false;
  alarm_.set(due);
  return true;
}

void FaultyTransport::disarm() {
  if (stopped_) return;
  inner_->disarm();
  alarm_.set(std::nullopt);
}

class FaultyMedium : public Medium {
 public:
  FaultyMedium(std::unique_ptr<Medium> inner, FaultScript script)
      : inner_(std::move(inner)), script_(std::move(script)) {}

  std::string address() const override { return inner_->address(); }

  std::unique_ptr<Transport> connect(int self, std::span<const std::string> addresses) override {
    return std::make_unique<FaultyTransport>(inner_->connect(self, addresses), script_,
                                             addresses.size());
  }

 private:
  const std::unique_ptr<Medium> inner_;
  const FaultScript script_;
};

}  // namespace

std::unique_ptr<Medium> with_faults(std::unique_ptr<Medium> medium, FaultScript script) {
  return std::make_unique<FaultyMedium>(std::move(medium), std::move(script));
}

}  // namespace echelon
