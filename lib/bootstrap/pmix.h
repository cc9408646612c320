// SPDX-License-Identifier: Apache-2.0
// The launcher's own exchange of small data: PMIx, as mpirun and srun offer it.
#pragma once

#include <memory>
#include <string>

#include "lib/bootstrap/rendezvous.h"

namespace echelon {

// A rank of a PMIx job; ends with the object.
class Pmix {
 public:
  virtual ~Pmix() = default;

  // Rank, size and, where the launcher knows them, local rank and size.
  virtual Identity identity() const = 0;

  // The bytes that rank 0 passes as `mine`. Collective over the job. Blocks until the deadline.
  virtual std::string from_root(const std::string& mine, Deadline deadline) = 0;
};

// Throws ECH_ERR_UNSUPPORTED when Echelon was built without PMIx or this process has no server.
std::unique_ptr<Pmix> connect_pmix();

}  // namespace echelon
