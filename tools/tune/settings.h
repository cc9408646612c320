// SPDX-License-Identifier: Apache-2.0
// What a run of tune measures: plain data, filled by the command line.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/settings.h"

namespace echelon::tune {

struct Settings {
  std::vector<ech_collective> collectives = {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER,
                                             ECH_BROADCAST, ECH_REDUCE};
  perf::Settings range;  // its sizes
  double seconds = 120;  // for all
  double within = 4;     // plans predicted at more times the best are left out; 0: none is
  std::string output;    // "": no file
  bool json = false;
};

}  // namespace echelon::tune
