// SPDX-License-Identifier: Apache-2.0
// A rank's standby listener while it is open: who calls there and proves to be a rank of the family
// is let in, or is told that this rank lives and has nothing to offer now.
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "lib/bootstrap/handshake.h"
#include "lib/bootstrap/reception.h"
#include "lib/bootstrap/standby.h"

namespace echelon {

// The status of the verdict for a rank that is told to wait.
inline constexpr ech_status kNotNow = ECH_ERR_TIMEOUT;
// And of that for one without which the others have gone on.
inline constexpr ech_status kLeftOut = ECH_ERR_ABORTED;

class Door {
 public:
  // Lets the guest in, which takes its socket, or returns false.
  using Admit = std::function<bool(Guest&, const Hello&)>;

  Door(Standby& standby, Admit admit);

  // As those of a Reception. A notice that comes in is kept in standby.lost_to.
  void watch(std::vector<pollfd>& sockets) { reception_.watch(sockets); }
  Deadline when() const { return reception_.when(); }
  void serve(const pollfd* sockets);

  // Hears all that has come until now. Does not block.
  void catch_up();

  // Those that were told to wait may ask again.
  void let_go() { waiting_.clear(); }

 private:
  void judge(Guest& guest);
  void judge_stranger(const Guest& guest);

  Standby& standby_;
  const Admit admit_;
  const Key key_;
  Reception& reception_;
  std::map<int, Fd> waiting_;  // by seat
  bool met_stranger_ = false;
};

}  // namespace echelon
