// SPDX-License-Identifier: Apache-2.0
// Sums and the like over the inputs of all ranks, in the order of ranks. 16-bit floats are added as
// float32 and rounded once.
#pragma once

#include <cstddef>
#include <vector>

#include "transports/nccl/library.h"

namespace echelon::standin {

using Buffer = std::vector<char>;

bool is_valid(NcclType type);
bool is_valid(NcclOp op);
std::size_t size_of(NcclType type);

// All inputs have `count` elements.
Buffer reduce(const std::vector<Buffer>& inputs, std::size_t count, NcclType type, NcclOp op);

}  // namespace echelon::standin
