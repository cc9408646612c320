// SPDX-License-Identifier: Apache-2.0
// The thread that reads the control connections, and how it finds out who holds up the others.
#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/thread.h"
#include "lib/base/time.h"
#include "lib/bootstrap/control_events.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/tcp_control.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kEventsAtOnce = 64;
// Who sees that a process of its host has ended waits for news that explains it: it may have heard
// of a failure sooner, and left. Rank 0, which sees the connection end, waits for that rank.
constexpr milliseconds kCourtesy{50}, kObituary{200};
constexpr milliseconds kNewsAge{3000};  // they come every second while somebody waits

std::vector<Peer> decode_roster(const std::string& payload, int size) {
  ByteReader reader(payload, "list of ranks");
  std::vector<Peer> roster(size);
  for (int rank = 0; rank < size; ++rank) {
    roster[rank].rank = rank;
    roster[rank].host = reader.text();
    roster[rank].pid = reader.u32();
  }
  reader.expect_end();
  return roster;
}

// Rank 0 and the others say different things. What the wrong one says would find a state here that
// is made for the other.
bool may_come(FrameType type, bool to_root) {
  switch (type) {
    case FrameType::kGather:
    case FrameType::kGoodbye:
    case FrameType::kFailure:
      return true;
    case FrameType::kComplaint:
    case FrameType::kReport:
      return to_root;
    case FrameType::kReady:
    case FrameType::kAsk:
    case FrameType::kNews:
      return !to_root;
  }
  return false;
}

// Whether the other side's host has not confirmed all that was sent to it.
bool unconfirmed(const Channel& channel) {
  int bytes = 0;
  return channel.unsent() || (::ioctl(channel.fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

}  // namespace

void TcpControl::serve() noexcept {
  block_signals();
  pthread_setname_np(pthread_self(), "echelon-control");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int timeout = milliseconds_to_next();
    lock.unlock();
    epoll_event event;
    ::epoll_wait(epoll_.get(), &event, 1, timeout);  // level-triggered: pump() sees it again
    while (urgent_ > 0) std::this_thread::yield();
    lock.lock();
    try {
      pump();
      tick(Clock::now());
    } catch (const std::exception& e) {
      fail_by(e);
    }
    changed_.notify_all();
  }
}

// This thread has no caller to throw to: what it cannot do ends the communicator.
void TcpControl::fail_by(const std::exception& exception) noexcept {
  const auto* error = dynamic_cast<const Error*>(&exception);
  try {
    fail_all(error != nullptr ? *error : exhausted_, nullptr);
  } catch (const std::exception&) {
    // Who cannot be told sees the connection end. Our own callers know: that needs no memory.
    for (const auto& channel : channels_)
      if (channel->open()) drop(*channel);
  }
}

void TcpControl::poke() noexcept { ::eventfd_write(poke_.get(), 1); }

int TcpControl::milliseconds_to_next() const {
  if (failure_ || closed_) return -1;
  Time next = Time::max();
  if (inquiry_.under_way()) next = std::min(next, inquiry_.next());
  if (unanswered_) next = *unanswered_ + patience_.answer;
  for (const Loss& loss : losses_)
    if (!unanswered_) next = std::min(next, loss.until);
  return next == Time::max() ? -1 : milliseconds_until(next);
}

void TcpControl::pump() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < n; ++i) {
    const std::uint32_t about = events[i].data.u32;
    eventfd_t poked;
    if (about == kPokeEvent) {
      ::eventfd_read(poke_.get(), &poked);
      continue;
    }
    if ((about & kProcessEvent) != 0) {
      mate_died(static_cast<int>(about & ~kProcessEvent));
      continue;
    }
    Channel* const channel = channel_of(static_cast<int>(about));
    if (channel == nullptr || !channel->open()) continue;
    serve_channel(*channel, events[i].events);
  }
}

void TcpControl::serve_channel(Channel& channel, std::uint32_t events) {
  try {
    if ((events & EPOLLOUT) != 0) flush(channel);
    if ((events & ~EPOLLOUT) != 0) receive_from(channel);
  } catch (const Error& e) {
    drop(channel);
    fail_all(e, &channel);
  } catch (const std::exception& e) {
    // No fault of that rank, which is told. What it sends may be what there is no memory for.
    channel.stop_receiving();
    if (failure_)
      drop(channel);  // it cannot be told either
    else
      fail_by(e);
  }
}

void TcpControl::receive_from(Channel& channel) {
  const bool open = channel.receive();
  while (auto message = channel.next()) handle(channel, std::move(*message));
  if (!open) lost(channel);
}

void TcpControl::handle(Channel& channel, Message message) {
  const int rank = channel.peer().rank;
  Inbox& inbox = inboxes_[rank];
  if (!may_come(message.type, is_root()) || (message.type == FrameType::kReady && inbox.ready))
    throw Error(ECH_ERR_INTERNAL,
                fmt::format("{} sent a message of type {}, which none may send",
                            channel.peer().text(), static_cast<int>(message.type)));
  unanswered_.reset();
  switch (message.type) {
    case FrameType::kReady:
      roster_ = decode_roster(message.payload, size_);
      inbox.ready = true;
      return;
    case FrameType::kGather:
      inbox.gathers.push_back(std::move(message.payload));
      return;
    case FrameType::kGoodbye:
      inbox.goodbye = true;
      return;
    case FrameType::kFailure:
      return fail_all(decode_failure(message.payload), &channel);
    case FrameType::kComplaint:
      inquiry_.complain(Clock::now());
      return send(channel, FrameType::kNews,
                  std::make_shared<const std::string>(news_));  // a sign of life, at once
    case FrameType::kAsk:
      return send_all(FrameType::kReport,
                      own_report(ByteReader(message.payload, "question").u64()));
    case FrameType::kReport:
      return take_report(rank, message.payload);
    case FrameType::kNews:
      return learn(one_line(message.payload));
  }
}

void TcpControl::drop(Channel& channel) {
  // By hand: a process forked from this one may keep the socket, and with it the watch, alive.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel.fd(), nullptr);
  channel.close();
}

void TcpControl::lost(Channel& channel) {
  drop(channel);
  const int rank = channel.peer().rank;
  if (inboxes_[rank].goodbye || closed_) return;
  const bool others_know = is_root() && last_seen(rank).empty() && has_mates(rank);
  if (!others_know) return fail_all(death(rank), &channel);
  losses_.push_back({rank, Clock::now() + kObituary});
}

// ---- deaths -----------------------------------------------------------------------------------

std::string TcpControl::last_seen(int rank) const {
  const std::string seen = attendant_ != nullptr ? attendant_->last_seen(rank) : "";
  return seen.empty() ? "" : "; last seen " + seen;
}

Error TcpControl::death(int rank) const {
  return {ECH_ERR_PEER, fmt::format("{} {}: it died, was killed or gave up{}", describe(rank),
                                    kWithoutGoodbye, last_seen(rank))};
}

// Whether another rank than rank 0 could tell what it was doing.
bool TcpControl::has_mates(int rank) const {
  return attendant_ != nullptr && std::ranges::any_of(roster_, [&](const Peer& peer) {
           return peer.rank != rank && peer.rank != rank_ && peer.host == roster_[rank].host;
         });
}

void TcpControl::attend(Attendant* attendant, const std::vector<int>& mates) {
  std::lock_guard lock(mutex_);
  attendant_ = attendant;
  if (failure_ && attendant_ != nullptr) attendant_->failed();
  mates_.clear();
  for (int rank : mates) {
    const auto pid = static_cast<pid_t>(roster_[rank].pid);
    if (pid == ::getpid()) continue;
    Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = kProcessEvent | static_cast<std::uint32_t>(rank);
    // Without it, its death is noticed all the same, by the end of its connection.
    if (process && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.get(), &event) == 0)
      mates_.emplace_back(rank, std::move(process));
  }
}

void TcpControl::mate_died(int rank) {
  std::erase_if(mates_, [&](const auto& mate) { return mate.first == rank; });
  if (leaving_) return;
  losses_.push_back({rank, Clock::now() + kCourtesy});
  // It may have left because it found that rank 0 has failed.
  if (!is_root()) complain(Clock::now());
}

// ---- why ranks wait -----------------------------------------------------------------------------

std::string TcpControl::own_report(std::uint64_t number) const {
  const Snapshot mine = attendant_ != nullptr ? attendant_->activity() : Snapshot();
  return ByteWriter().u64(number).text(encode_snapshot(mine)).take();
}

void TcpControl::take_report(int rank, const std::string& payload) {
  ByteReader reader(payload, "a rank's report");
  const std::uint64_t number = reader.u64();
  inquiry_.answer(rank, number, decode_snapshot(reader.text()));
}

std::string TcpControl::waiting(std::chrono::nanoseconds since) {
  std::lock_guard lock(mutex_);
  if (failure_ || closed_ || since < patience_.stall) return {};
  const Time now = Clock::now();
  complain(now);
  return now < news_at_ + kNewsAge ? news_ : std::string();
}

void TcpControl::learn(std::string news) {
  news_ = std::move(news);
  news_at_ = Clock::now();
}

bool TcpControl::in_doubt() {
  std::lock_guard lock(mutex_);
  return unanswered_ && !failure_;
}

void TcpControl::complain(Time now) {
  if (complained_at_ && now < *complained_at_ + Inquiry::kAgain) return;
  complained_at_ = now;
  if (is_root()) {
    inquiry_.complain(now);
    return poke();
  }
  if (!unanswered_) unanswered_ = now;
  send_all(FrameType::kComplaint, "");
  poke();  // to look at the time when the answer is due
}

void TcpControl::ask() {
  inquiry_.answer(0, inquiry_.number(),
                  attendant_ != nullptr ? attendant_->activity() : Snapshot());
  send_all(FrameType::kAsk, ByteWriter().u64(inquiry_.number()).take());
}

void TcpControl::judge(const std::vector<Snapshot>& reports) {
  const Comparison found = compare(reports, [this](int rank) { return describe(rank); });
  if (!found.mismatch.empty()) return fail_all({ECH_ERR_MISMATCH, found.mismatch}, nullptr);
  send_all(FrameType::kNews, found.waiting);
  learn(found.waiting);
}

Error TcpControl::silence(const std::vector<int>& ranks) {
  const Channel* channel = channel_of(ranks[0]);
  const bool gone = channel == nullptr || !channel->open() || unconfirmed(*channel);
  std::string text = fmt::format(
      "{} did not answer for {:.1f} s, {}", describe(ranks), to_seconds(patience_.answer),
      gone ? "and nothing of what was sent there is confirmed: the host is down or cut off"
           : "though the host confirms what is sent there: the process is stopped or starved");
  return {gone ? ECH_ERR_PEER : ECH_ERR_TIMEOUT, text + last_seen(ranks[0])};
}

void TcpControl::tick(Time now) {
  if (failure_ || closed_) return;
  if (unanswered_ && now >= *unanswered_ + patience_.answer) return fail_all(silence({0}), nullptr);
  for (const Loss& loss : losses_)
    if (now >= loss.until && !leaving_ && !unanswered_) return fail_all(death(loss.rank), nullptr);
  if (!is_root()) return;
  if (inquiry_.ask(now)) ask();
  if (const auto reports = inquiry_.conclude(now)) return judge(*reports);
  if (const std::vector<int> ranks = inquiry_.silent(now); !ranks.empty())
    fail_all(silence(ranks), nullptr);
}

}  // namespace echelon
