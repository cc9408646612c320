// SPDX-License-Identifier: Apache-2.0
// NCCL over all ranks of perf, as the other side of a comparison.
#pragma once

#include <memory>

#include "tools/perf/device.h"
#include "transports/cuda/driver.h"

namespace echelon::tools {

// Its operations go into `stream`, whose context must be current. Collective. Throws perf::Failure
// on all ranks when a rank has no NCCL, or when two ranks of a host share a GPU.
std::unique_ptr<perf::Peer> join_nccl(const perf::Comm& comm, CudaStream stream);

}  // namespace echelon::tools
