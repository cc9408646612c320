// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/gathering.h"

#include <algorithm>
#include <cassert>

namespace echelon {
namespace {

constexpr int kMostDoublings = 20;

}  // namespace

Gathering::Gathering(int self, const std::vector<bool>& gone, const WaitingTimes& times,
                     Deadline now)
    : self_(self),
      times_(times),
      silence_(std::max<std::chrono::nanoseconds>(times.silent / 2, kLeastSilence)),
      leader_(self) {
  for (bool out : gone) seats_.push_back(out ? Seat::kGone : Seat::kUnknown);
  seats_[self] = Seat::kHere;
  hope_.resize(seats_.size());
  start_over(self, now);
}

void Gathering::start_over(int leader, Deadline now) {
  leader_ = leader;
  since_ = heard_leader_ = now;
  std::ranges::fill(hope_, now + times_.silent);
}

void Gathering::died(int seat) {
  if (seats_[seat] != Seat::kGone) seats_[seat] = Seat::kDead;
}

void Gathering::came(int seat) {
  assert(leads() && seat > self_ && seats_[seat] != Seat::kGone);
  seats_[seat] = Seat::kHere;
}

void Gathering::left(int seat) {
  if (seats_[seat] == Seat::kHere) seats_[seat] = Seat::kUnknown;
}

void Gathering::lives(int seat, Deadline now) { hope_[seat] = now + times_.silent; }

void Gathering::follow(int seat, Deadline now) {
  assert(seat < leader_);
  for (std::size_t other = 0; other < seats_.size(); ++other)
    if (static_cast<int>(other) != self_) left(static_cast<int>(other));
  start_over(seat, now);
}

void Gathering::hear_leader(Deadline now) { heard_leader_ = now; }

// It goes on calling at least as many as it took to find the one that is lost.
void Gathering::lose_leader(Deadline now) {
  const std::vector<int> seats = absent();
  calls_at_first_ = 1 + std::ranges::count_if(seats, [this](int s) { return s < leader_; });
  start_over(self_, now);
}

void Gathering::give_up(int seat) { seats_[seat] = Seat::kLate; }

Deadline Gathering::decide_at() const {
  Deadline hope = since_;
  for (int seat : absent()) hope = std::max(hope, hope_[seat]);
  return std::min(hope, since_ + times_.alive);
}

bool Gathering::decided(Deadline now) const { return leads() && now >= decide_at(); }

bool Gathering::leader_overdue(Deadline now) const {
  return !leads() && now >= heard_leader_ + silence_;
}

bool Gathering::matters(int seat) const {
  return seats_[seat] == Seat::kUnknown && (leads() || seat < leader_);
}

std::size_t Gathering::calls_allowed(Deadline now) const {
  const auto doublings = std::max<std::int64_t>(0, (now - since_) / kCallStep);
  return calls_at_first_ << std::min<std::int64_t>(doublings, kMostDoublings);
}

// In order of seats, so all that are lower than a leader have been called before it has answered.
std::vector<int> Gathering::seats_to_call(Deadline now) const {
  std::vector<int> seats = absent();
  std::erase_if(seats, [this](int seat) { return !matters(seat); });
  if (leads() && seats.size() > calls_allowed(now)) seats.resize(calls_allowed(now));
  return seats;
}

Deadline Gathering::next(Deadline now) const {
  if (!leads()) return heard_leader_ + silence_;
  if (absent().size() <= calls_allowed(now)) return decide_at();
  return std::min(decide_at(), since_ + ((now - since_) / kCallStep + 1) * kCallStep);
}

std::vector<int> Gathering::seats_in(Seat state) const {
  std::vector<int> seats;
  for (std::size_t seat = 0; seat < seats_.size(); ++seat)
    if (seats_[seat] == state) seats.push_back(static_cast<int>(seat));
  return seats;
}

std::vector<int> Gathering::members() const { return seats_in(Seat::kHere); }

std::vector<int> Gathering::left_out() const {
  std::vector<int> seats = absent();
  for (int seat : seats_in(Seat::kLate)) seats.push_back(seat);
  return seats;
}

}  // namespace echelon
