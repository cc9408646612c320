// SPDX-License-Identifier: Apache-2.0
// How many calls of each function Echelon has done in this process, and how many MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace echelon::dropin {

enum class Function {
  kAllreduce,
  kIallreduce,
  kReduceScatter,
  kReduceScatterBlock,
  kAllgather,
  kBcast,
  kReduce,
  kBarrier
};

// Thread-safe.
void count_served(Function function, std::size_t bytes);
void count_passed(Function function);

struct Tally {
  std::uint64_t served = 0, bytes = 0, passed = 0;
};

// By name, "MPI_Allreduce"; zeros for one that is none of these.
Tally tally_of(std::string_view function);

// "MPI_Allreduce 12 (4096 bytes), MPI_Bcast 3 (24 bytes); passed on: MPI_Bcast 1"
std::string tally_text();

}  // namespace echelon::dropin
