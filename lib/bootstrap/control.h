// SPDX-License-Identifier: Apache-2.0
// The control connection: how ranks find each other, exchange bytes at creation, and keep in
// touch afterwards. A star of authenticated TCP connections with rank 0 in the middle.
//
// Thread safety: one thread at a time, except where said.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace echelon {

using Deadline = std::chrono::steady_clock::time_point;

class Control {
 public:
  virtual ~Control() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Every rank's bytes, in rank order. Collective. Blocks until `deadline`; throws
  // ECH_ERR_TIMEOUT naming the missing ranks, ECH_ERR_PEER naming the rank that left.
  virtual std::vector<std::string> allgather(std::string_view mine, Deadline deadline) = 0;

  // Readable when another rank has said abort or has left. -1 for a communicator of one.
  virtual int fd() const = 0;

  // What has come in without being asked for. Throws ECH_ERR_ABORTED or ECH_ERR_PEER when a
  // rank aborted or left; otherwise returns. Never blocks.
  virtual void check() = 0;

  // Tells every other rank to abort. Never blocks for long, never throws; any thread.
  virtual void abort() noexcept = 0;

  // Says goodbye so that the others do not take the closing for a death. Collective; blocks
  // until all have said it or `deadline`. Throws like allgather().
  virtual void close(Deadline deadline) = 0;
};

}  // namespace echelon
