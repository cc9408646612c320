// SPDX-License-Identifier: Apache-2.0
// Echelon's failures as MPI's errors.
#pragma once

#include <mpi.h>

#include "mpi/channel.h"

namespace echelon::dropin {

// MPI_SUCCESS, MPI_ERR_NO_MEM, or a code of the class MPI_ERR_OTHER for which MPI_Error_string
// gives Echelon's own words.
int error_code(const Outcome& outcome);

// The same after the error handler of `comm` was called, should that return.
int raise_on(MPI_Comm comm, const Outcome& outcome);

// One line to standard error, whole.
void say(const std::string& line);

}  // namespace echelon::dropin
