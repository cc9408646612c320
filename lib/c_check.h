// SPDX-License-Identifier: Apache-2.0
// What the C ABI asks of a collective's arguments, before anything is done. Throws Error.
#pragma once

#include <string>

#include "lib/c_handles.h"
#include "transports/cuda/pointer.h"

namespace echelon {

// Sets on_gpu to where the buffers are. Those of a list have been checked: c_list.h.
void check(Invocation& in, const ech_comm* comm);

// For forms with settings, after check(): that the buffers are where `said` and the stream want
// them. A barrier has none, and is done where these are.
void check_memory(Invocation& in, const ech_comm& comm, ech_memory said);

std::string text_of(const PointerPlace& place);  // "host memory"

// That memory of a GPU, called `buffer`, is the communicator's.
void check_device(const std::string& buffer, const PointerPlace& place, Communicator& comm);

}  // namespace echelon
