// SPDX-License-Identifier: Apache-2.0
// What every served call has in common.
#pragma once

#include <new>
#include <optional>

#include "mpi/failure.h"
#include "mpi/service.h"
#include "mpi/tally.h"
#include "mpi/types.h"

namespace echelon::dropin {

// Runs `body`, which returns what the call does, and counts when it returns nothing.
template <typename Body>
std::optional<int> serve(Function function, MPI_Comm comm, Body body) {
  try {
    const std::optional<int> result = body();
    if (!result) count_passed(function);
    return result;
  } catch (const std::bad_alloc&) {
    return raise_on(comm, {ECH_ERR_NO_MEMORY, "out of memory"});
  }
}

// Bytes of the larger buffer.
inline std::size_t bytes_of(const Task& task, int size) {
  const bool blocks = task.collective == ECH_REDUCE_SCATTER || task.collective == ECH_ALLGATHER;
  const std::size_t one = task.count * size_of(task.dtype);
  return blocks ? one * static_cast<std::size_t>(size) : one;
}

// The task as the end of a served call.
struct Served {
  Function function;
  MPI_Comm comm;
  Channel& channel;

  int run(const Task& task) const {
    const Outcome outcome = channel.run(task);
    count_served(function, bytes_of(task, channel.size()));
    return raise_on(comm, outcome);
  }
};

}  // namespace echelon::dropin
