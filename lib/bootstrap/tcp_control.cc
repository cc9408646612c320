// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/tcp_control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/join.h"
#include "lib/bootstrap/control_events.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFailureLimit{300};  // for what the sockets cannot take at once
constexpr milliseconds kLeavingLimit{200};  // likewise, on destruction
constexpr milliseconds kAnswerGrace{500};   // rank 0 knows better who is missing: let it speak
constexpr milliseconds kLookAgain{500};     // while a call waits, to complain in time

std::string encode_roster(const std::vector<Peer>& roster) {
  ByteWriter writer;
  for (const Peer& peer : roster) writer.text(peer.host).u32(peer.pid);
  return writer.take();
}

// Lets the service thread stand back for as long as it lives, whatever is thrown meanwhile.
class Urgent {
 public:
  explicit Urgent(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Urgent() { --count_; }
  Urgent(const Urgent&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

TcpControl::TcpControl(const Identity& identity, Channels channels)
    : rank_(identity.rank),
      size_(identity.size),
      secret_(identity.secret),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      poke_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      news_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      channels_(std::move(channels)),
      inboxes_(identity.size),
      inquiry_(identity.size, patience_.answer) {
  if (!epoll_ || !poke_ || !news_fd_) throw system_error("cannot watch the control connections");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kPokeEvent;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, poke_.get(), &event) != 0)
    throw system_error("cannot watch the control connections");
  roster_.push_back(self(identity));
  for (const auto& channel : channels_) {
    watch(*channel, EPOLL_CTL_ADD);
    roster_.push_back(channel->peer());
  }
  std::sort(roster_.begin(), roster_.end(),
            [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
  service_ = std::thread([this] { serve(); });
}

TcpControl::~TcpControl() {
  try {
    flush_for(kLeavingLimit);
  } catch (const std::exception&) {
    // The others see the connection close, which says enough.
  }
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  poke();
  service_.join();
}

void TcpControl::start(Deadline deadline, const std::function<void()>& check) {
  if (is_root()) {
    std::unique_lock lock(mutex_);
    send_all(FrameType::kReady, encode_roster(roster_));
    lock.unlock();
    return wait({"creation", [this] { return unread(); }, false, check}, deadline);
  }
  const auto unready = [](const Inbox& inbox) { return !inbox.ready; };
  wait({"creation", [&] { return ranks_where(unready); }, false, check}, deadline);
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

// Rank 0 may be known to ranks of its own host by an address that others cannot use.
std::string TcpControl::address() {
  std::lock_guard lock(mutex_);
  for (const auto& channel : channels_) {
    const Address own = own_address(channel->fd());
    if (!own.is_loopback() && is_local(own)) return own.host();
  }
  return {};
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

void TcpControl::send(Channel& channel, FrameType type, Channel::Payload payload) {
  channel.send(type, std::move(payload));
  channel.flush();
  if (channel.open()) watch(channel, EPOLL_CTL_MOD);
}

void TcpControl::send_all(FrameType type, const std::string& payload) {
  const auto shared = std::make_shared<const std::string>(payload);
  for (const auto& channel : channels_) send(*channel, type, shared);
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

void TcpControl::fail_all(const Error& error, const Channel* origin) {
  if (failure_ || closed_) return;
  failure_ = error;
  failed_ = true;
  ::eventfd_write(news_fd_.get(), 1);
  if (attendant_ != nullptr) attendant_->failed();
  changed_.notify_all();
  const std::string payload = encode_failure(error);
  for (const auto& channel : channels_) {
    if (channel.get() == origin || !channel->open()) continue;
    channel->send_instead(FrameType::kFailure, payload);
    channel->flush();
    if (channel->open()) watch(*channel, EPOLL_CTL_MOD);
  }
}

// ---- calls ----------------------------------------------------------------------------------

std::string TcpControl::describe(const std::vector<int>& ranks) const {
  constexpr std::size_t kMostNames = 4;
  if (ranks.size() > kMostNames) return rank_list(ranks);
  std::vector<std::string> names;
  for (int rank : ranks) names.push_back(describe(rank));
  return joined(names, ", ");
}

Error TcpControl::timed_out(const Wait& wait, Deadline start) const {
  return {ECH_ERR_TIMEOUT,
          fmt::format("{} timed out on {} after {}, waiting for {}", wait.what, describe(rank_),
                      seconds_since(start), describe(wait.missing()))};
}

// True when nothing is missing; throws when nothing will come any more.
bool TcpControl::settled(const Wait& wait, Deadline start, Deadline limit) {
  const std::vector<int> missing = wait.missing();
  if (!failure_ && missing.empty()) return true;
  for (int rank : missing)
    if (!wait.after_goodbye && inboxes_[rank].goodbye)
      fail_all({ECH_ERR_PEER, fmt::format("{} closed the communicator while {} waits for it in {}",
                                          describe(rank), describe(rank_), wait.what)},
               nullptr);
  const Time now = Clock::now();
  if (now >= limit) fail_all(timed_out(wait, start), nullptr);
  // Before that, rank 0 still waits for others and could not answer.
  const bool complete = is_root() || inboxes_[0].ready;
  if (complete && now >= start + patience_.stall) complain(now);
  if (failure_) throw *failure_;
  return false;
}

void TcpControl::wait(const Wait& wait, Deadline deadline) {
  const Deadline start = Clock::now();
  const bool extend = !is_root() && deadline < Deadline::max() - kAnswerGrace;
  const Deadline limit = extend ? deadline + kAnswerGrace : deadline;
  std::unique_lock lock(mutex_);
  while (!settled(wait, start, limit)) {
    changed_.wait_until(lock, std::min(limit, Clock::now() + kLookAgain));
    if (!wait.check) continue;
    lock.unlock();
    wait.check();
    lock.lock();
  }
}

void TcpControl::set_patience(const Patience& patience) {
  std::lock_guard lock(mutex_);
  patience_ = patience;
  inquiry_.set_limit(patience.answer);
}

void TcpControl::check() {
  if (!failed_) return;
  std::lock_guard lock(mutex_);
  throw *failure_;
}

void TcpControl::fail(const Error& error) noexcept {
  try {
    {
      const Urgent urgent(urgent_);
      std::lock_guard lock(mutex_);
      fail_all(error, nullptr);
    }
    flush_for(kFailureLimit);
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
    leaving_ = true;
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
