// SPDX-License-Identifier: Apache-2.0
// The one entrance for the communicator: finds the other ranks in whichever way the options say.
#pragma once

#include <memory>
#include <string>

#include "lib/bootstrap/control.h"
#include "lib/bootstrap/environment.h"
#include "lib/bootstrap/rendezvous.h"

namespace echelon {

// As in ech_comm_options: the first of id, allgather, mode that is set wins.
struct BootstrapOptions {
  const ech_unique_id* unique_id = nullptr;  // with rank and size
  ech_allgather_fn allgather = nullptr;      // with rank and size
  void* allgather_context = nullptr;
  std::string mode = "auto";  // "env", "pmix", "auto": env, else pmix, else a communicator of one
  int rank = 0;
  int size = 0;
  std::string interface;
  Deadline deadline;
  Lookup lookup;  // may be empty: no variable is set
  Log log;
};

struct Bootstrapped {
  std::unique_ptr<Control> control;
  std::string source;  // "unique id", "the caller's allgather", "torchrun", "PMIx", "alone", ...
};

// Collective. Blocks until all ranks have come or the deadline. Throws as join() does, and
// ECH_ERR_INVALID for options or variables that are wrong.
Bootstrapped bootstrap(const BootstrapOptions& options);

}  // namespace echelon
