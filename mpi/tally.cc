// SPDX-License-Identifier: Apache-2.0
#include "mpi/tally.h"

#include <atomic>

namespace echelon::dropin {
namespace {

constexpr std::string_view kNames[] = {
    "MPI_Allreduce", "MPI_Iallreduce", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
    "MPI_Allgather", "MPI_Bcast",      "MPI_Reduce",         "MPI_Barrier"};
constexpr std::size_t kFunctions = std::size(kNames);

struct Row {
  std::atomic<std::uint64_t> served{0}, bytes{0}, passed{0};
};

Row rows[kFunctions];

Row& row_of(Function function) { return rows[static_cast<std::size_t>(function)]; }

}  // namespace

void count_served(Function function, std::size_t bytes) {
  Row& row = row_of(function);
  row.served.fetch_add(1, std::memory_order_relaxed);
  row.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void count_passed(Function function) {
  row_of(function).passed.fetch_add(1, std::memory_order_relaxed);
}

Tally tally_of(std::string_view function) {
  for (std::size_t f = 0; f < kFunctions; ++f)
    if (kNames[f] == function) return {rows[f].served, rows[f].bytes, rows[f].passed};
  return {};
}

std::string tally_text() {
  std::string served, passed;
  for (std::size_t f = 0; f < kFunctions; ++f) {
    const std::string name(kNames[f]);
    if (rows[f].served > 0)
      served += (served.empty() ? "" : ", ") + name + " " + std::to_string(rows[f].served) + " (" +
                std::to_string(rows[f].bytes) + " bytes)";
    if (rows[f].passed > 0)
      passed += (passed.empty() ? "" : ", ") + name + " " + std::to_string(rows[f].passed);
  }
  if (served.empty()) served = "nothing";
  return served + (passed.empty() ? "" : "; passed on: " + passed);
}

}  // namespace echelon::dropin
