// SPDX-License-Identifier: Apache-2.0
// MPI's C functions, in front of those of the MPI library.
#include "mpi/c_functions.h"

#include "mpi/collectives.h"
#include "mpi/service.h"
#include "mpi/tally.h"

using namespace echelon::dropin;

int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  const auto served = allreduce({send, recv, count, type, op, comm});
  return served ? *served : PMPI_Allreduce(send, recv, count, type, op, comm);
}

int MPI_Iallreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  const auto served = iallreduce({send, recv, count, type, op, comm}, request);
  return served ? *served : PMPI_Iallreduce(send, recv, count, type, op, comm, request);
}

int MPI_Reduce_scatter(const void* send, void* recv, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  const auto served = reduce_scatter({send, recv, 0, type, op, comm}, counts);
  return served ? *served : PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
}

int MPI_Reduce_scatter_block(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  const auto served = reduce_scatter_block({send, recv, count, type, op, comm});
  return served ? *served : PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
}

int MPI_Allgather(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm) {
  const auto served = allgather({send, {sendcount, sendtype}, recv, {recvcount, recvtype}, comm});
  return served ? *served
                : PMPI_Allgather(send, sendcount, sendtype, recv, recvcount, recvtype, comm);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const auto served = bcast({data, {count, type}, root, comm});
  return served ? *served : PMPI_Bcast(data, count, type, root, comm);
}

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  const auto served = reduce({send, recv, count, type, op, comm, root});
  return served ? *served : PMPI_Reduce(send, recv, count, type, op, root, comm);
}

int MPI_Barrier(MPI_Comm comm) {
  const auto served = barrier(comm);
  return served ? *served : PMPI_Barrier(comm);
}

int MPI_Finalize() {
  end_service();
  return PMPI_Finalize();
}

uint64_t echelon_mpi_served(const char* function) {
  return function != nullptr ? tally_of(function).served : 0;
}

uint64_t echelon_mpi_bytes(const char* function) {
  return function != nullptr ? tally_of(function).bytes : 0;
}

uint64_t echelon_mpi_passed(const char* function) {
  return function != nullptr ? tally_of(function).passed : 0;
}
