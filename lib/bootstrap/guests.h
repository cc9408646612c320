// SPDX-License-Identifier: Apache-2.0
// Connections at rank 0's port that have proved nothing yet, and which of them go when there are
// too many. Anyone who reaches the port can be a guest, so:
//  1. There are at most `places` of them, each a descriptor and at most one Hello of bytes, and
//     none stays longer than kGuestPatience.
//  2. When all places are taken the oldest goes, but not before kGuestTurn: many ranks that come
//     at once must not push each other out. Until then newcomers wait in the kernel's queue.
//  3. An address with an eighth of the places is a crowd. While there is one nobody waits in the
//     queue, where a flood would hide the ranks: a newcomer from elsewhere gets the place of the
//     crowd's oldest at once, and one of a crowd gets it after kCrowdTurn or is turned away.
// A rank that is turned away or dropped tries again.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <string>

#include "lib/base/fd.h"
#include "lib/bootstrap/address.h"
#include "lib/bootstrap/control.h"

namespace echelon {

inline constexpr std::chrono::seconds kGuestPatience{5};
inline constexpr std::chrono::milliseconds kGuestTurn{200};  // a busy rank's time to answer
inline constexpr std::chrono::milliseconds kCrowdTurn{50};  // so that ranks among it get a turn too
inline constexpr std::size_t kMostGuests = 1024;
inline constexpr std::size_t kCrowdShare = 8;  // a crowd has at least 1/8 of the places,
inline constexpr std::size_t kLeastCrowd = 8;  // and so many: fewer are no flood

struct Guest {
  Fd fd;
  Address from;
  Deadline since;
  std::string challenge;
  std::string hello;  // as far as it has come
};

class Guests {
 public:
  using List = std::list<Guest>;

  explicit Guests(std::size_t places) : places_(places) {}

  List& all() { return list_; }  // oldest first; remove by erase() only
  std::size_t size() const { return list_.size(); }

  // Whether to accept another connection now.
  bool may_come(Deadline now) const;

  // Takes it, perhaps in the place of another. False when it was turned away.
  bool add(Guest guest, Deadline now);
  List::iterator erase(List::iterator guest);
  void expire(Deadline now);

  // One must go although nobody has come, because the descriptors are used up: there are that many
  // places fewer from now on. False when there is none.
  bool give_up_place();

  // When expire() or may_come() can have another answer than now.
  Deadline when(Deadline now) const;

 private:
  bool full() const { return list_.size() >= places_; }
  bool is_crowd(std::size_t n) const { return n >= kLeastCrowd && kCrowdShare * n >= places_; }
  bool in_crowd(const std::string& network) const;
  bool any_crowd() const;
  List::iterator first_to_go();
  bool make_room(const std::string& newcomer, Deadline now);
  void drop(List::iterator guest);

  std::size_t places_;
  List list_;
  std::map<std::string, std::size_t> count_;  // by Address::network()
};

// How many this process can afford: a quarter of its descriptors, so that neither the ranks nor the
// rest of the program run out of them.
std::size_t guest_places();

}  // namespace echelon
