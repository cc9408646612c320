// SPDX-License-Identifier: Apache-2.0
// Times one operation on all ranks. What exactly is timed is written in bench/README.md.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/perf/comm.h"
#include "tools/perf/settings.h"
#include "tools/perf/statistics.h"
#include "tools/perf/trial.h"

namespace echelon::perf {

struct Measurement {
  Statistics seconds;                  // per operation
  double cpu_seconds = 0;              // per operation, of all ranks together
  std::optional<std::uint64_t> wrong;  // nothing when it was not checked
  std::optional<double> peer_seconds;  // median; nothing without a peer
};

// Collective. `trial` need not be prepared. With a peer, which is measured in turns with `comm`.
Measurement measure(const Comm& comm, Trial& trial, const Settings& settings, Peer* peer = nullptr);

}  // namespace echelon::perf
