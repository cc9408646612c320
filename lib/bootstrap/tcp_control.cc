// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/tcp_control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kWakeEvent = UINT32_MAX;
constexpr std::size_t kEventsAtOnce = 64;
constexpr milliseconds kAbortLimit{300};    // for what the sockets cannot take at once
constexpr milliseconds kLeavingLimit{200};  // likewise, on destruction
constexpr milliseconds kAnswerGrace{500};   // rank 0 knows better who is missing: let it speak

std::string encode_roster(const std::vector<Peer>& roster) {
  ByteWriter writer;
  for (const Peer& peer : roster) writer.text(peer.host).u32(peer.pid);
  return writer.take();
}

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

}  // namespace

TcpControl::TcpControl(const Identity& identity, Channels channels)
    : rank_(identity.rank),
      size_(identity.size),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      channels_(std::move(channels)),
      inboxes_(identity.size) {
  if (!epoll_ || !wake_) throw system_error("cannot watch the control connections");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kWakeEvent;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
    throw system_error("cannot watch the control connections");
  roster_.push_back(self(identity));
  for (const auto& channel : channels_) {
    watch(*channel, EPOLL_CTL_ADD);
    roster_.push_back(channel->peer());
  }
  std::sort(roster_.begin(), roster_.end(),
            [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
}

TcpControl::~TcpControl() {
  try {
    flush_for(kLeavingLimit);
  } catch (const std::exception&) {
    // The others see the connection close, which says enough.
  }
}

void TcpControl::start(Deadline deadline) {
  if (is_root()) {
    std::unique_lock lock(mutex_);
    send_all(FrameType::kReady, encode_roster(roster_));
    lock.unlock();
    return wait({"creation", [this] { return unread(); }}, deadline);
  }
  const auto unready = [](const Inbox& inbox) { return !inbox.ready; };
  wait({"creation", [&] { return ranks_where(unready); }}, deadline);
}

Channel* TcpControl::channel_of(int rank) {
  const std::size_t index = is_root() ? rank - 1 : 0;
  return index < channels_.size() ? channels_[index].get() : nullptr;
}

std::string TcpControl::describe(int rank) const {
  for (const Peer& peer : roster_)
    if (peer.rank == rank) return peer.text();
  return fmt::format("rank {}", rank);
}

std::vector<int> TcpControl::ranks_where(const std::function<bool(const Inbox&)>& lacks) const {
  std::vector<int> ranks;
  for (const auto& channel : channels_)
    if (lacks(inboxes_[channel->peer().rank])) ranks.push_back(channel->peer().rank);
  return ranks;
}

std::vector<int> TcpControl::unread() const {
  std::vector<int> ranks;
  for (const auto& channel : channels_)
    if (channel->unsent()) ranks.push_back(channel->peer().rank);
  return ranks;
}

// ---- sockets --------------------------------------------------------------------------------

void TcpControl::watch(const Channel& channel, int operation) {
  epoll_event event{};
  event.events = EPOLLIN | (channel.unsent() ? EPOLLOUT : 0u);
  event.data.u32 = static_cast<std::uint32_t>(channel.peer().rank);
  if (::epoll_ctl(epoll_.get(), operation, channel.fd(), &event) != 0)
    throw system_error("cannot watch the control connection to " + channel.peer().text());
}

void TcpControl::flush(Channel& channel) {
  const bool watched = channel.unsent();
  channel.flush();
  if (channel.open() && watched != channel.unsent()) watch(channel, EPOLL_CTL_MOD);
}

void TcpControl::send_all(FrameType type, const std::string& payload) {
  const auto shared = std::make_shared<const std::string>(payload);
  for (const auto& channel : channels_) {
    channel->send(type, shared);
    channel->flush();
    if (channel->open()) watch(*channel, EPOLL_CTL_MOD);
  }
}

void TcpControl::flush_for(milliseconds limit) {
  const Deadline deadline = Clock::now() + limit;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      for (const auto& channel : channels_) flush(*channel);
      if (unread().empty()) return;
    }
    if (Clock::now() >= deadline) return;
    ::poll(nullptr, 0, 1);
  }
}

void TcpControl::pump() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u32 == kWakeEvent) continue;
    Channel* const channel = channel_of(static_cast<int>(events[i].data.u32));
    if (channel == nullptr || !channel->open()) continue;
    if ((events[i].events & EPOLLOUT) != 0) flush(*channel);
    if ((events[i].events & ~EPOLLOUT) != 0) receive_from(*channel);
  }
}

void TcpControl::receive_from(Channel& channel) {
  const bool open = channel.receive();
  try {
    while (auto message = channel.next()) handle(channel, std::move(*message));
  } catch (const Error& e) {
    drop(channel);
    return fail(e, &channel);
  }
  if (!open) lost(channel);
}

void TcpControl::handle(Channel& channel, Message message) {
  Inbox& inbox = inboxes_[channel.peer().rank];
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
      return fail(decode_failure(message.payload), &channel);
  }
  throw Error(ECH_ERR_INTERNAL, fmt::format("{} sent a message of unknown type {}",
                                            channel.peer().text(), static_cast<int>(message.type)));
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
  fail({ECH_ERR_PEER,
        fmt::format("{} closed its control connection without a goodbye: it died, was killed or "
                    "gave up",
                    describe(rank))},
       &channel);
}

void TcpControl::fail(const Error& error, const Channel* origin) {
  if (failure_ || closed_) return;
  failure_ = error;
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  const std::string payload = encode_failure(error);
  for (const auto& channel : channels_) {
    if (channel.get() == origin || !channel->open()) continue;
    channel->send_instead(FrameType::kFailure, payload);
    channel->flush();
    if (channel->open()) watch(*channel, EPOLL_CTL_MOD);
  }
}

// ---- calls ----------------------------------------------------------------------------------

void TcpControl::wait_for_event(Deadline deadline) const {
  pollfd entry{epoll_.get(), POLLIN, 0};
  ::poll(&entry, 1, milliseconds_until(deadline));
}

std::string TcpControl::describe(const std::vector<int>& ranks) const {
  constexpr std::size_t kMostNames = 4;
  if (ranks.size() > kMostNames) return rank_list(ranks);
  std::vector<std::string> names;
  for (int rank : ranks) names.push_back(describe(rank));
  return fmt::format("{}", fmt::join(names, ", "));
}

Error TcpControl::timed_out(const Wait& wait, Deadline start) const {
  return {ECH_ERR_TIMEOUT,
          fmt::format("{} timed out on {} after {}, waiting for {}", wait.what, describe(rank_),
                      seconds_since(start), describe(wait.missing()))};
}

// The step of wait() that holds the lock: true when nothing is missing.
bool TcpControl::settled(const Wait& wait, Deadline start, Deadline limit) {
  std::lock_guard lock(mutex_);
  pump();
  const std::vector<int> missing = wait.missing();
  if (!failure_ && missing.empty()) return true;
  for (int rank : missing)
    if (!wait.after_goodbye && inboxes_[rank].goodbye)
      fail({ECH_ERR_PEER, fmt::format("{} closed the communicator while {} waits for it in {}",
                                      describe(rank), describe(rank_), wait.what)},
           nullptr);
  if (Clock::now() >= limit) fail(timed_out(wait, start), nullptr);
  if (failure_) throw *failure_;
  return false;
}

void TcpControl::wait(const Wait& wait, Deadline deadline) {
  const Deadline start = Clock::now();
  const bool extend = !is_root() && deadline < Deadline::max() - kAnswerGrace;
  const Deadline limit = extend ? deadline + kAnswerGrace : deadline;
  while (!settled(wait, start, limit)) wait_for_event(limit);
}

void TcpControl::check() {
  std::lock_guard lock(mutex_);
  if (!closed_) pump();
  if (failure_) throw *failure_;
}

void TcpControl::abort() noexcept {
  try {
    {
      std::lock_guard lock(mutex_);
      fail({ECH_ERR_ABORTED, describe(rank_) + " aborted the communicator"}, nullptr);
    }
    flush_for(kAbortLimit);
  } catch (const std::exception&) {
    // Out of memory: the wake-up was written first, so this rank ends, and with it the others.
  }
}

std::string TcpControl::take_gather(int rank) {
  std::string bytes = std::move(inboxes_[rank].gathers.front());
  inboxes_[rank].gathers.pop_front();
  return bytes;
}

bool TcpControl::gave_nothing(const Inbox& inbox) { return inbox.gathers.empty(); }

std::vector<std::string> TcpControl::gather_on_root(std::string_view mine, Deadline deadline) {
  wait({"allgather", [this] { return ranks_where(gave_nothing); }}, deadline);
  std::vector<std::string> all(size_);
  ByteWriter writer;
  {
    std::lock_guard lock(mutex_);
    all[0] = mine;
    for (int rank = 1; rank < size_; ++rank) all[rank] = take_gather(rank);
    for (const std::string& bytes : all) writer.text(bytes);
    send_all(FrameType::kGather, writer.take());
  }
  wait({"allgather", [this] { return unread(); }, true}, deadline);
  return all;
}

std::vector<std::string> TcpControl::gather_on_member(std::string_view mine, Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    send_all(FrameType::kGather, std::string(mine));
  }
  wait({"allgather", [this] { return ranks_where(gave_nothing); }}, deadline);
  std::unique_lock lock(mutex_);
  const std::string bytes = take_gather(0);
  lock.unlock();
  ByteReader reader(bytes, "allgather of the ranks");
  std::vector<std::string> all(size_);
  for (std::string& part : all) part = reader.text();
  reader.expect_end();
  return all;
}

std::vector<std::string> TcpControl::allgather(std::string_view mine, Deadline deadline) {
  if (mine.size() > kMessageBytes / size_ - 4)
    throw invalid(
        fmt::format("allgather of {} bytes on each of {} ranks is over 1 GiB", mine.size(), size_));
  return is_root() ? gather_on_root(mine, deadline) : gather_on_member(mine, deadline);
}

void TcpControl::close(Deadline deadline) {
  const auto silent = [](const Inbox& inbox) { return !inbox.goodbye; };
  const Wait goodbyes{"close", [&] { return ranks_where(silent); }, true};
  if (is_root()) wait(goodbyes, deadline);
  {
    std::lock_guard lock(mutex_);
    send_all(FrameType::kGoodbye, "");
  }
  if (is_root())
    wait({"close", [this] { return unread(); }, true}, deadline);
  else
    wait(goodbyes, deadline);
  std::lock_guard lock(mutex_);
  closed_ = true;
  channels_.clear();
}

}  // namespace echelon
