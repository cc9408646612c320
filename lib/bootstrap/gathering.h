// SPDX-License-Identifier: Apache-2.0
// How survivors of a failure find out who goes on, as one of them sees it. Pure: no sockets, and
// time is an argument. Ranks are named by their seats (standby.h).
//
// Everyone follows the lowest seat that answers; who finds no lower one leads. A leader decides
// when every other seat follows it or is known to be dead, or when it has waited long enough: not
// long for one that is silent, long for one that lives and has not come yet. Who follows gives up
// its own followers: they find the same lower seat by themselves.
//
// Laws
//  1. A rank follows one other at most, always a lower one, and leaves it only for a lower one or
//     when it is lost.
//  2. Who decides leads. Its members are itself and those that follow it at that moment.
//  3. Who is no member then has died, was left out before, or has been waited for.
//  4. Whatever happens, it decides, or has a leader that is not yet overdue.
#pragma once

#include <chrono>
#include <vector>

#include "lib/bootstrap/control.h"

namespace echelon {

// Calls widen: every such time a rank that has no answer calls twice as many. So it has one
// connection where the lowest seat is alive, and meets the survivors soon where that seat's whole
// host is gone.
inline constexpr std::chrono::milliseconds kCallStep{100};
// A leader lets its followers know that it is there. Who hears nothing for half of the time after
// which others would give it up, and for at least as long as this, leaves it.
inline constexpr std::chrono::milliseconds kLeastSilence{1000};

// How long a seat is waited for.
struct WaitingTimes {
  std::chrono::nanoseconds silent;  // since it last said that it lives, or since the beginning
  std::chrono::nanoseconds alive;   // in all
};

class Gathering {
 public:
  // `gone`: by seat, who has been left out before.
  Gathering(int self, const std::vector<bool>& gone, const WaitingTimes& times, Deadline now);

  // What has happened.
  void died(int seat);                  // nobody listens there any more
  void came(int seat);                  // it follows us
  void left(int seat);                  // and does no longer
  void lives(int seat, Deadline now);   // it says so, but does not follow, nor let us in
  void follow(int seat, Deadline now);  // a lower seat has let us in
  void hear_leader(Deadline now);
  void lose_leader(Deadline now);
  void give_up(int seat);  // it has been silent for too long

  // What to do.
  int leader() const { return leader_; }  // this rank itself when it leads
  bool leads() const { return leader_ == self_; }
  bool decided(Deadline now) const;
  bool leader_overdue(Deadline now) const;
  std::chrono::nanoseconds beat() const { return silence_ / 8; }  // a leader's signs of life
  bool matters(int seat) const;                                   // whether a call to it may stay
  std::vector<int> seats_to_call(Deadline now) const;
  Deadline next(Deadline now) const;  // when one of these answers changes by itself

  std::vector<int> members() const;   // in order
  std::vector<int> left_out() const;  // alive for all we know, but no members

 private:
  enum class Seat { kUnknown, kHere, kLate, kDead, kGone };

  std::size_t calls_allowed(Deadline now) const;
  Deadline decide_at() const;
  std::vector<int> seats_in(Seat state) const;
  std::vector<int> absent() const { return seats_in(Seat::kUnknown); }
  void start_over(int leader, Deadline now);

  const int self_;
  const WaitingTimes times_;
  const std::chrono::nanoseconds silence_;  // of a leader
  std::vector<Seat> seats_;
  std::vector<Deadline> hope_;  // by seat: how long to wait for it
  int leader_;
  Deadline heard_leader_;
  Deadline since_;                  // when it began to lead or to follow
  std::size_t calls_at_first_ = 1;  // when it begins to lead
};

}  // namespace echelon
