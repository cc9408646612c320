// SPDX-License-Identifier: Apache-2.0
// Which calls Echelon does, and how. Nothing where MPI is to do the call itself; else what the call
// returns, with the communicator's error handler already called.
//
// All ranks decide alike, because the decision depends on nothing but what MPI wants to be equal on
// all of them: op, datatype and count of a reduction; the number of bytes of a broadcast or
// allgather, whose datatypes may differ as long as their signatures do not.
#pragma once

#include <mpi.h>

#include <optional>

namespace echelon::dropin {

struct Reduction {
  const void* send;
  void* recv;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
  int root = 0;
};

std::optional<int> allreduce(const Reduction& call);
std::optional<int> iallreduce(const Reduction& call, MPI_Request* request);
std::optional<int> reduce(const Reduction& call);
std::optional<int> reduce_scatter_block(const Reduction& call);
std::optional<int> reduce_scatter(Reduction call, const int* counts);  // where all are equal

struct Block {
  int count;
  MPI_Datatype type;
};

struct Gathering {
  const void* send;
  Block sent;
  void* recv;
  Block received;
  MPI_Comm comm;
};

std::optional<int> allgather(const Gathering& call);

struct Broadcast {
  void* data;
  Block block;
  int root;
  MPI_Comm comm;
};

std::optional<int> bcast(const Broadcast& call);

std::optional<int> barrier(MPI_Comm comm);

}  // namespace echelon::dropin
