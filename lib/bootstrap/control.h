// SPDX-License-Identifier: Apache-2.0
// The control connection: how ranks find each other, exchange bytes at creation, and keep in
// touch afterwards. A star of authenticated TCP connections with rank 0 in the middle, read by a
// thread of its own, so that a rank answers and hears of failures whatever its caller does.
//
// Thread safety: allgather() and close() by one thread at a time, everything else by any.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/activity.h"
#include "lib/base/error.h"
#include "lib/bootstrap/auth.h"

namespace echelon {

using Deadline = std::chrono::steady_clock::time_point;

// What the connection's thread asks of the communicator. Any thread; must not block nor call back.
class Attendant {
 public:
  virtual ~Attendant() = default;
  virtual Snapshot activity() const = 0;
  // What a rank of this host was last seen doing, also after its death; "" when not known.
  virtual std::string last_seen(int rank) const = 0;
  // The communicator has failed: whoever waits should look.
  virtual void failed() noexcept = 0;
};

// How long a rank may make no progress before it complains, and an answer may take.
struct Patience {
  std::chrono::nanoseconds stall = std::chrono::seconds(2);
  std::chrono::nanoseconds answer = std::chrono::seconds(10);
};

class Control {
 public:
  virtual ~Control() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // For `purpose`, from the job's secret: only ranks of the job can know it.
  virtual Key key(std::string_view purpose) const = 0;

  // The address of this machine at which ranks of other hosts reach it; "" when none does.
  virtual std::string address() = 0;

  // Every rank's bytes, in rank order. Collective. Blocks until `deadline`; throws
  // ECH_ERR_TIMEOUT naming the missing ranks, ECH_ERR_PEER naming the rank that left.
  virtual std::vector<std::string> allgather(std::string_view mine, Deadline deadline) = 0;

  virtual void set_patience(const Patience& patience) = 0;

  // From now on `attendant` is asked; `mates` are the ranks of this host whose processes can be
  // watched. nullptr ends that; it is not in use any more when this returns.
  virtual void attend(Attendant* attendant, const std::vector<int>& mates) = 0;

  // Readable when the communicator has failed, and from then on. -1 for a communicator of one.
  virtual int fd() const = 0;

  // Throws the failure of the communicator, if there is one. Cheap, never blocks.
  virtual void check() = 0;

  // This rank has made no progress for `since`; to be called now and then. Asks rank 0 why. What
  // has been found out about it, or "": one line. Never blocks.
  virtual std::string waiting(std::chrono::nanoseconds since) = 0;

  // Whether rank 0 has not yet answered to that: it may be the one that has failed.
  virtual bool in_doubt() = 0;

  // Ends the communicator on every rank with this error, unless it has failed before. Never blocks
  // for long, never throws.
  virtual void fail(const Error& error) noexcept = 0;

  // Says goodbye so that the others do not take the closing for a death. Collective; blocks
  // until all have said it or `deadline`. Throws like allgather().
  virtual void close(Deadline deadline) = 0;
};

}  // namespace echelon
