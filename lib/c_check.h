// SPDX-License-Identifier: Apache-2.0
// What the C ABI asks of a collective's arguments, before anything is done. Throws Error.
#pragma once

#include "lib/c_handles.h"

namespace echelon {

// Sets on_gpu to where the buffers are.
void check(Invocation& in, const ech_comm* comm);

// For forms with settings, after check(): that the buffers are where `said` and the stream want
// them. A barrier has none, and is done where these are.
void check_memory(Invocation& in, const ech_comm& comm, ech_memory said);

}  // namespace echelon
