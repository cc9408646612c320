// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for callers. Thread-safe.
#pragma once

#include <cstddef>

namespace echelon {

// Zeroed memory of the device that is current on the calling thread. Throws ECH_ERR_UNSUPPORTED
// when there is none, ECH_ERR_NO_MEMORY.
void* device_alloc(std::size_t bytes);

// False when `memory` is not from device_alloc(). Waits for what the device is doing, as CUDA does.
bool device_free(void* memory);

}  // namespace echelon
