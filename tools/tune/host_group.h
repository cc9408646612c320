// SPDX-License-Identifier: Apache-2.0
// The ranks of this host, joined through shared memory.
#pragma once

#include <chrono>
#include <memory>

#include "tools/perf/comm.h"
#include "transports/group.h"
#include "transports/shm/choose.h"
#include "transports/shm/way_trial.h"

namespace echelon::tune {

class HostGroup {
 public:
  // Collective over all of `comm`, whose host's ranks become members by rank.
  HostGroup(const perf::Comm& comm, const shm::Thresholds& thresholds);

  int size() const { return size_; }

  // Blocks until done. Throws perf::Failure when nothing moves for ten seconds, and where the group
  // has failed.
  void call(const GroupWork& work);

  // What trials have found; nothing where there is one member.
  shm::KnownWays ways() const;

 private:
  void await();
  void rest(std::chrono::steady_clock::time_point moved);

  int size_ = 0;
  int polls_ = 0;  // before others get the core, as in the library's communicators
  std::unique_ptr<GroupEngine> engine_;
};

}  // namespace echelon::tune
