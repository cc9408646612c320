// SPDX-License-Identifier: Apache-2.0
// The door of a rank that waits for others: accepts connections, gives each a Challenge and takes
// in its Hello. Whom to let in is its owner's affair. Nothing that strangers send is looked at
// beyond the fixed bytes of one Hello; what they cost and who of them goes first is in guests.h.
//
// Thread safety: one thread at a time.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/bootstrap/channel.h"
#include "lib/bootstrap/guests.h"
#include "lib/bootstrap/handshake.h"
#include "lib/bootstrap/listener.h"

namespace echelon {

// To a guest. Its socket's buffer is empty, so this is taken whole; if not, it sees the closing.
void reply(const Guest& guest, const std::string& bytes);

// Lets in a guest whose Hello holds: the Verdict, and the channel to it.
std::unique_ptr<Channel> welcome(const Secret& secret, Guest& guest, const Hello& hello);

class Reception {
 public:
  // Called with a guest whose Hello is complete, and who leaves afterwards unless its socket is
  // taken. May throw.
  using Judge = std::function<void(Guest&)>;

  explicit Reception(const Listener& listener) : listener_(listener) {}

  // Appends what to poll for, until when() at the latest.
  void watch(std::vector<pollfd>& sockets);
  Deadline when() const;

  // After poll(): `sockets` are those that watch() has appended last. Throws ECH_ERR_NO_MEMORY
  // when there is no descriptor for even one guest.
  void serve(const pollfd* sockets, const Judge& judge);

  // All guests leave.
  void send_away() { guests_ = Guests(guest_places()); }

 private:
  void accept_guests();
  bool accept_guest(Deadline now);
  void hear_guests(const pollfd* sockets, const Judge& judge);

  const Listener& listener_;
  Guests guests_{guest_places()};
};

}  // namespace echelon
