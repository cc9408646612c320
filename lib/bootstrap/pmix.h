// SPDX-License-Identifier: Apache-2.0
// The launcher's own exchange of small data: PMIx, as mpirun and srun offer it.
#pragma once

#include <string>

#include "lib/bootstrap/rendezvous.h"

namespace echelon {

// A rank of a PMIx job.
class Pmix {
 public:
  virtual ~Pmix() = default;

  // Rank and size.
  virtual Identity identity() const = 0;

  // The bytes that rank 0 passes as `mine`. Collective over the job. Blocks until the deadline.
  virtual std::string from_root(const std::string& mine, Deadline deadline) = 0;
};

// The same one until the process ends: OpenPMIx's server may leave a rank that finalizes and comes
// again out of fences, which the others then pass without it (issues 3931 and 4113 of
// github.com/openpmix/openpmix; seen with 4.2).
// Throws ECH_ERR_UNSUPPORTED when Echelon was built without PMIx, this process has no server, or it
// is a fork of one that has.
Pmix& connect_pmix();

}  // namespace echelon
