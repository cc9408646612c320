// SPDX-License-Identifier: Apache-2.0
// Which communicators of MPI Echelon serves in this process, from the first collective on each to
// MPI_Comm_free or MPI_Finalize.
#pragma once

#include <mpi.h>

#include "mpi/channel.h"

namespace echelon::dropin {

// Makes it at the first call for a communicator, by MPI's own collectives: every rank must come
// here alike. Null, on all ranks alike, where Echelon does not serve.
Channel* channel_for(MPI_Comm comm);

// The one that is there already; makes nothing.
Channel* existing_channel(MPI_Comm comm);

// What begins from now on is MPI's, and what is there is retired. For the beginning of
// MPI_Finalize.
void end_service();

}  // namespace echelon::dropin
