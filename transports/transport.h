// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks. A Medium is what a rank has before it knows the others; connect()
// turns it into a Transport.
//
// Thread safety: one thread at a time, except abort(), which any thread may call at any time.
// Nothing blocks but Medium::connect().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/error.h"
#include "transports/waitable.h"

namespace echelon {

// Matches a send with its receive, per (sender, receiver) pair. A tag may be used again once
// both are complete. Only the low 48 bits are the caller's: the rest
// is for the transport, which may need to say there who the sender is.
using Tag = std::uint64_t;

// State of one send or receive. Belongs to the caller, who keeps it in place until done; the
// transport writes it, possibly before send() or receive() returns and otherwise in progress().
struct Completion {
  bool done = false;
  ech_status status = ECH_OK;  // why it failed, once done
  int peer = -1;               // whom it was for
};

struct Counters {
  std::uint64_t messages = 0;  // sent
  std::uint64_t bytes = 0;     // payload sent
};

class Transport : public Waitable {
 public:
  // Starts a message. The memory stays untouched (send) or unread (receive) by the caller until
  // done. A receive must be exactly as long as its message. Messages to oneself are not allowed.
  virtual void send(int peer, Tag tag, std::span<const std::byte> data, Completion& completion) = 0;
  virtual void receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) = 0;

  // Moves what can be moved. True when anything happened.
  virtual bool progress() = 0;

  // Ends everything pending and everything later with ECH_ERR_ABORTED at the next progress().
  // After that progress() the transport never touches the memory of cancelled operations again.
  virtual void abort() = 0;

  // False when part of a message whose send is done waits in this process until its connection has
  // room: it leaves in progress(), and nobody else will say that it has not.
  virtual bool all_left() { return true; }

  virtual Counters counters() const = 0;

  // Why operations with `peer` fail, where their status does not say all: one line, else "".
  virtual std::string reason(int) const { return {}; }
};

class Medium {
 public:
  virtual ~Medium() = default;

  // What the others need to reach this rank. Opaque bytes.
  virtual std::string address() const = 0;

  // Whether messages may lie in the memory of a GPU, too.
  virtual bool reaches_gpus() const { return false; }

  // Consumes the medium. `addresses` holds every rank's, in rank order; `self` is ours.
  // Not collective: peers that are not there yet are reached later.
  virtual std::unique_ptr<Transport> connect(int self, std::span<const std::string> addresses) = 0;
};

}  // namespace echelon
