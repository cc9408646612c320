// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/guests.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace echelon {
namespace {

// By a reset: an ordinary closing would leave the kernel with a connection to remember for a
// minute, for every one of a flood.
void turn_away(const Fd& fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace

bool Guests::may_come(Deadline now) const {
  return !full() || any_crowd() || list_.front().since + kGuestTurn <= now;
}

bool Guests::add(Guest guest, Deadline now) {
  const std::string network = guest.from.network();
  if (full() && !make_room(network, now)) {
    turn_away(guest.fd);
    return false;
  }
  guest.since = now;
  list_.push_back(std::move(guest));
  ++count_[network];
  return true;
}

bool Guests::make_room(const std::string& newcomer, Deadline now) {
  const auto guest = first_to_go();
  const bool crowded = any_crowd();
  const bool turn_is_over = guest->since + (crowded ? kCrowdTurn : kGuestTurn) <= now;
  if (!turn_is_over && (!crowded || in_crowd(newcomer))) return false;
  drop(guest);
  return true;
}

bool Guests::in_crowd(const std::string& network) const {
  const auto at = count_.find(network);
  return at != count_.end() && is_crowd(at->second);
}

bool Guests::any_crowd() const {
  return std::any_of(count_.begin(), count_.end(),
                     [this](const auto& entry) { return is_crowd(entry.second); });
}

// The oldest, of a crowd if there is one.
Guests::List::iterator Guests::first_to_go() {
  const auto of_crowd = std::find_if(list_.begin(), list_.end(), [this](const Guest& guest) {
    return in_crowd(guest.from.network());
  });
  return of_crowd == list_.end() ? list_.begin() : of_crowd;
}

void Guests::drop(List::iterator guest) {
  turn_away(guest->fd);
  erase(guest);
}

Guests::List::iterator Guests::erase(List::iterator guest) {
  const auto at = count_.find(guest->from.network());
  if (--at->second == 0) count_.erase(at);
  return list_.erase(guest);
}

void Guests::expire(Deadline now) {
  while (!list_.empty() && list_.front().since + kGuestPatience <= now) drop(list_.begin());
}

bool Guests::give_up_place() {
  if (list_.empty()) return false;
  drop(first_to_go());
  places_ = std::max<std::size_t>(list_.size(), 1);
  return true;
}

Deadline Guests::when(Deadline now) const {
  if (list_.empty()) return Deadline::max();
  const Deadline oldest = list_.front().since;
  return may_come(now) ? oldest + kGuestPatience : oldest + kGuestTurn;
}

std::size_t guest_places() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kMostGuests;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, kLeastCrowd, kMostGuests);
}

}  // namespace echelon
