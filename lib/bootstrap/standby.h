// SPDX-License-Identifier: Apache-2.0
// What a rank keeps from the making of a communicator so that survivors can find each other again
// after a failure: a listener of its own that nobody accepts on until then, where all others have
// theirs, and a key. A communicator and those that are shrunk from it share one.
//
// Ranks have new numbers in every communicator. A seat is the number that a rank had in the first
// of them, and which it keeps.
//
// Thread safety: answer() from any thread, the rest from the one that has a Use, or from the
// doorman while nobody has one.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/bootstrap/address.h"
#include "lib/bootstrap/auth.h"
#include "lib/bootstrap/listener.h"
#include "lib/bootstrap/reception.h"

namespace echelon {

class Doorman;

class Standby {
 public:
  // `addresses` are those of all seats' listeners, `job` a key that only ranks of the job know.
  Standby(int self, Listener listener, std::vector<Address> addresses, const Key& job);
  ~Standby();
  Standby(const Standby&) = delete;

  int self() const { return self_; }
  int size() const { return static_cast<int>(addresses_.size()); }
  Reception& reception() { return reception_; }
  const Address& address(int seat) const { return addresses_[seat]; }

  // With which ranks prove themselves at a seat's listener, and with which they leave there the
  // news that the others have gone on without it.
  Key door_key(int seat) const;
  Key notice_key(int seat) const;

  // For the control connection of the survivors.
  Key control_key() const;

  // From now on a thread answers, for a rank whose caller may not come for long, that it lives.
  void answer() noexcept;

  // Takes the listener for a reunion; the thread ends. Throws ECH_ERR_INVALID when another thread
  // has it.
  class Use {
   public:
    explicit Use(Standby& standby);
    ~Use();
    Use(const Use&) = delete;

   private:
    Standby& standby_;
  };

  std::string interface;       // to bind when connecting
  Log log;                     // of the communicators that share this
  std::vector<bool> gone;      // by seat: left out of the last reunion that was decided
  std::optional<int> lost_to;  // the seat that went on without this rank

 private:
  const int self_;
  Listener listener_;
  Reception reception_{listener_};  // one for all doors: what has come in at one is not lost
  const std::vector<Address> addresses_;
  const Key key_;
  std::mutex mutex_;  // guards the rest
  bool in_use_ = false;
  std::unique_ptr<Doorman> doorman_;
};

}  // namespace echelon
