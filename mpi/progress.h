// SPDX-License-Identifier: Apache-2.0
// Open MPI's progress engine: what every waiting MPI call turns, and what others may hang their
// own work on. Not part of MPI, so it is looked up by name.
#pragma once

namespace echelon::dropin {

// Lets MPI move its messages. Does not block.
void progress_mpi();

// From now on every MPI call that waits calls `step` again and again, from any thread that may
// call MPI. It returns how much it has ended. False where this MPI has no such thing.
bool join_progress(int (*step)());
void leave_progress(int (*step)());

}  // namespace echelon::dropin
