// SPDX-License-Identifier: Apache-2.0
// Files that rank 0 reads for all ranks, so that all plan alike, and what becomes of the one of
// `echelon tune`.
#pragma once

#include "lib/base/log.h"
#include "lib/bootstrap/control.h"
#include "lib/options.h"
#include "lib/tuning/tuning.h"

namespace echelon {

// What they are called in messages.
inline constexpr const char* kFabricFile =
    "the fabric file (of ECHELON_FABRIC or options.fabric_file)";
inline constexpr const char* kTuningFile = "the tuning file (of ECHELON_TUNING)";

// Collective. Fills the texts of `options` and the paths that they have on rank 0. Throws
// ECH_ERR_INVALID on all ranks when rank 0 cannot read one.
void share_files(Control& control, Options& options, Deadline deadline);

struct Speaker {
  const Log& log;
  bool first;  // rank 0, which warns for all
};

// What was measured on such machines. Nothing, and a warning, where it was measured on others;
// no warning for a communicator that is part of another. Throws ECH_ERR_INVALID.
Tuning tuning_for(const Options& options, const MachineKey& here, const Speaker& speaker);

}  // namespace echelon
