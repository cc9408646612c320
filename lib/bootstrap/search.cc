// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/search.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/join.h"
#include "lib/bootstrap/door.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/gathering.h"
#include "lib/bootstrap/standby_call.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

class Search {
 public:
  Search(Standby& standby, const ReunionOptions& options)
      : standby_(standby),
        options_(options),
        door_(standby, [this](Guest& g, const Hello& h) { return admit(g, h); }),
        gathering_(standby.self(), standby.gone, options.times, Clock::now()) {}

  Found run();

 private:
  void step();
  Deadline wake_at() const;
  void keep_calls(Deadline now);
  void hear_calls(Deadline now);
  void hear_leader(Deadline now);
  void obey_leader(const Message& message, Deadline now);
  void hear_follower(int seat);
  void show_life(Deadline now);
  bool admit(Guest& guest, const Hello& hello);
  void follow(int seat, std::unique_ptr<Channel> channel, Deadline now);
  void lose_leader(Deadline now);
  void leave_overdue_leader(Deadline now);
  Found found();
  Found lead();
  Channels take_followers();
  [[noreturn]] void lost_to(int seat);
  Error too_late() const;
  std::string describe(int seat) const { return options_.describe(seat); }

  Standby& standby_;
  const ReunionOptions& options_;
  Door door_;
  const Deadline start_ = Clock::now();
  const std::size_t most_calls_ = guest_places();  // as many descriptors as for its guests
  Gathering gathering_;
  std::map<int, StandbyCall> calls_;                   // by seat
  std::map<int, std::unique_ptr<Channel>> followers_;  // by seat; none while it follows
  Deadline show_life_at_{};
  std::unique_ptr<Channel> leader_;  // null while it leads
  std::vector<int> members_;         // as the leader says; empty until it does
};

Found Search::run() {
  try {
    for (;;) {
      const Deadline now = Clock::now();
      if (!members_.empty() || gathering_.decided(now)) return found();
      if (now >= options_.deadline) throw too_late();
      if (gathering_.leader_overdue(now)) leave_overdue_leader(now);
      step();
    }
  } catch (const Error& e) {
    tell_all(take_followers(), e);
    throw;
  }
}

// What lies at the door may be the news that the others have gone on.
Found Search::lead() {
  door_.catch_up();
  if (standby_.lost_to) throw left_out(standby_, options_);
  return {true, gathering_.members(), gathering_.left_out(), take_followers()};
}

Found Search::found() {
  if (gathering_.leads()) return lead();
  Found result{false, std::move(members_), {}, {}};
  result.channels.push_back(std::move(leader_));
  return result;
}

Channels Search::take_followers() {
  Channels channels;
  for (auto& [seat, channel] : followers_) channels.push_back(std::move(channel));
  followers_.clear();
  return channels;
}

// Followers and guests come first, while they are those that were polled for.
void Search::step() {
  keep_calls(Clock::now());
  show_life(Clock::now());
  std::vector<pollfd> sockets;
  std::vector<int> seats;
  for (const auto& [seat, channel] : followers_) {
    sockets.push_back({channel->fd(), POLLIN, 0});
    seats.push_back(seat);
  }
  door_.watch(sockets);
  if (leader_) sockets.push_back({leader_->fd(), POLLIN, 0});
  for (const auto& [seat, call] : calls_) sockets.push_back(call.watched());
  ::poll(sockets.data(), sockets.size(), milliseconds_until(wake_at()));
  for (std::size_t i = 0; i < seats.size(); ++i)
    if (sockets[i].revents != 0) hear_follower(seats[i]);
  door_.serve(&sockets[seats.size()]);
  if (standby_.lost_to) throw left_out(standby_, options_);
  const Deadline now = Clock::now();
  if (leader_) hear_leader(now);
  hear_calls(now);
}

Deadline Search::wake_at() const {
  Deadline wake = std::min({options_.deadline, gathering_.next(Clock::now()), door_.when()});
  if (!followers_.empty()) wake = std::min(wake, show_life_at_);
  for (const auto& [seat, call] : calls_) wake = std::min(wake, call.retry_at());
  return wake;
}

// ---- calls and the leader -----------------------------------------------------------------------

void Search::keep_calls(Deadline now) {
  std::erase_if(calls_, [this](const auto& entry) { return !gathering_.matters(entry.first); });
  for (int seat : gathering_.seats_to_call(now))
    if (calls_.size() < most_calls_)
      calls_.try_emplace(seat, standby_, seat, options_.times.silent / 4);
}

void Search::hear_calls(Deadline now) {
  for (auto& [seat, call] : calls_) {
    if (!gathering_.matters(seat)) continue;
    const StandbyCall::State before = call.state();
    const StandbyCall::State state = call.advance(now);
    if (state == StandbyCall::State::kNotThere) {
      standby_.log(ECH_LOG_INFO, fmt::format("shrink: {} is gone", describe(seat)));
      gathering_.died(seat);
    }
    if (state == StandbyCall::State::kLives && before != state) gathering_.lives(seat, now);
    if (state == StandbyCall::State::kLeftOut) lost_to(seat);
    if (state == StandbyCall::State::kLetIn) follow(seat, call.take_channel(), now);
  }
}

void Search::follow(int seat, std::unique_ptr<Channel> channel, Deadline now) {
  standby_.log(ECH_LOG_DEBUG, fmt::format("shrink: following {}", describe(seat)));
  followers_.clear();
  leader_ = std::move(channel);
  gathering_.follow(seat, now);
}

void Search::lose_leader(Deadline now) {
  leader_.reset();
  gathering_.lose_leader(now);
  door_.let_go();
}

void Search::leave_overdue_leader(Deadline now) {
  standby_.log(ECH_LOG_WARN, fmt::format("shrink: {} leads the survivors and says nothing: going "
                                         "on without it",
                                         describe(gathering_.leader())));
  gathering_.give_up(gathering_.leader());
  lose_leader(now);
}

void Search::hear_leader(Deadline now) {
  const bool open = leader_->receive();
  try {
    while (members_.empty()) {
      const auto message = leader_->next();
      if (!message) break;
      obey_leader(*message, now);
    }
  } catch (const Error& e) {
    if (e.code() == ECH_ERR_PEER) throw;
    return lose_leader(now);  // what it says makes no sense
  }
  if (!open && members_.empty()) lose_leader(now);
}

void Search::obey_leader(const Message& message, Deadline now) {
  gathering_.hear_leader(now);
  if (message.type == FrameType::kReady) {
    std::vector<int> members = decode_members(message.payload, standby_.size());
    if (!std::ranges::binary_search(members, standby_.self()))
      throw invalid("list of survivors: it lacks this rank");
    members_ = std::move(members);
  }
  if (message.type == FrameType::kFailure)
    throw Error(ECH_ERR_PEER,
                fmt::format("{}, which led the survivors, gave up: {}",
                            describe(gathering_.leader()), decode_failure(message.payload).what()));
}

// ---- followers and guests -----------------------------------------------------------------------

// It has nothing to say yet.
void Search::hear_follower(int seat) {
  if (followers_[seat]->receive()) return;
  gathering_.left(seat);
  followers_.erase(seat);
}

void Search::show_life(Deadline now) {
  if (now < show_life_at_) return;
  show_life_at_ = now + gathering_.beat();
  const auto nothing = std::make_shared<const std::string>();
  for (const auto& [seat, follower] : followers_) {
    if (!follower->unsent()) follower->send(FrameType::kGather, nothing);
    follower->flush();
  }
}

// Who comes again has lost the connection that it had.
bool Search::admit(Guest& guest, const Hello& hello) {
  const auto seat = static_cast<int>(hello.rank);
  if (!gathering_.leads() || seat < standby_.self()) return false;
  followers_[seat] = welcome(standby_.door_key(standby_.self()), guest, hello);
  gathering_.came(seat);
  return true;
}

// ---- failures -----------------------------------------------------------------------------------

void Search::lost_to(int seat) {
  standby_.lost_to = seat;
  throw left_out(standby_, options_);
}

Error Search::too_late() const {
  std::vector<std::string> names;
  for (int seat : gathering_.leads() ? gathering_.left_out() : std::vector{gathering_.leader()})
    names.push_back(describe(seat));
  return {ECH_ERR_TIMEOUT,
          fmt::format("shrink timed out on {} after {}, waiting for {}", describe(standby_.self()),
                      seconds_since(start_), joined(names, ", "))};
}

}  // namespace

Found search(Standby& standby, const ReunionOptions& options) {
  return Search(standby, options).run();
}

Error left_out(const Standby& standby, const ReunionOptions& options) {
  return {ECH_ERR_ABORTED,
          fmt::format("{} has gone on without {}, which did not come to the shrink in time",
                      options.describe(*standby.lost_to), options.describe(standby.self()))};
}

}  // namespace echelon
