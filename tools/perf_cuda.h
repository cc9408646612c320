// SPDX-License-Identifier: Apache-2.0
// The GPU of a rank of perf, through the CUDA driver as the library loads it.
#pragma once

#include <memory>

#include "tools/perf/device.h"

namespace echelon::tools {

// GPU `local_rank`, modulo how many there are. Throws perf::Failure, which says what is missing.
std::unique_ptr<perf::Device> open_cuda(int local_rank);

}  // namespace echelon::tools
