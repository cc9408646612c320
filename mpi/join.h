// SPDX-License-Identifier: Apache-2.0
// How the ranks of one of MPI's communicators make one of Echelon's: all of them, or none.
#pragma once

#include <mpi.h>

#include <memory>

#include "mpi/channel.h"

namespace echelon::dropin {

// Collective over `comm`, by MPI's own functions. `able`: whether this process can take part. Null
// on all ranks where one cannot; the first that could not says why, once in a process.
std::unique_ptr<Channel> join_ranks(MPI_Comm comm, bool able);

}  // namespace echelon::dropin
