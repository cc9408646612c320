// SPDX-License-Identifier: Apache-2.0
// The same for Fortran, of mpif.h and `use mpi`, and of `use mpi_f08`, where only the name and the
// optional error argument differ. As compilers on Linux name them: in small letters, with an
// underscore. What arrives there goes on as MPI's own Fortran functions would send it, to C.
#include <mpi.h>

#include "mpi/c_functions.h"

extern "C" {

// Their addresses are what MPI_IN_PLACE and MPI_BOTTOM are in Fortran.
extern int mpi_fortran_in_place_, mpi_fortran_bottom_;

static_assert(sizeof(MPI_Fint) == sizeof(int), "arrays of counts are handed on as they are");

static void* buffer(void* given) {
  if (given == &mpi_fortran_in_place_) return MPI_IN_PLACE;
  if (given == &mpi_fortran_bottom_) return MPI_BOTTOM;
  return given;
}

static void tell(MPI_Fint* error, int code) {
  if (error != nullptr) *error = code;
}

void mpi_allreduce_(void* send, void* recv, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
                    MPI_Fint* comm, MPI_Fint* error) {
  tell(error, MPI_Allreduce(buffer(send), buffer(recv), *count, PMPI_Type_f2c(*type),
                            PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

void mpi_iallreduce_(void* send, void* recv, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
                     MPI_Fint* comm, MPI_Fint* request, MPI_Fint* error) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Iallreduce(buffer(send), buffer(recv), *count, PMPI_Type_f2c(*type),
                                  PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm), &made);
  if (code == MPI_SUCCESS) *request = PMPI_Request_c2f(made);
  tell(error, code);
}

void mpi_reduce_scatter_(void* send, void* recv, MPI_Fint* counts, MPI_Fint* type, MPI_Fint* op,
                         MPI_Fint* comm, MPI_Fint* error) {
  tell(error, MPI_Reduce_scatter(buffer(send), buffer(recv), counts, PMPI_Type_f2c(*type),
                                 PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

void mpi_reduce_scatter_block_(void* send, void* recv, MPI_Fint* count, MPI_Fint* type,
                               MPI_Fint* op, MPI_Fint* comm, MPI_Fint* error) {
  tell(error, MPI_Reduce_scatter_block(buffer(send), buffer(recv), *count, PMPI_Type_f2c(*type),
                                       PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

void mpi_allgather_(void* send, MPI_Fint* sendcount, MPI_Fint* sendtype, void* recv,
                    MPI_Fint* recvcount, MPI_Fint* recvtype, MPI_Fint* comm, MPI_Fint* error) {
  tell(error, MPI_Allgather(buffer(send), *sendcount, PMPI_Type_f2c(*sendtype), buffer(recv),
                            *recvcount, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}

void mpi_bcast_(void* data, MPI_Fint* count, MPI_Fint* type, MPI_Fint* root, MPI_Fint* comm,
                MPI_Fint* error) {
  tell(error, MPI_Bcast(buffer(data), *count, PMPI_Type_f2c(*type), *root, PMPI_Comm_f2c(*comm)));
}

void mpi_reduce_(void* send, void* recv, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
                 MPI_Fint* root, MPI_Fint* comm, MPI_Fint* error) {
  tell(error, MPI_Reduce(buffer(send), buffer(recv), *count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
                         *root, PMPI_Comm_f2c(*comm)));
}

void mpi_barrier_(MPI_Fint* comm, MPI_Fint* error) {
  tell(error, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}

void mpi_finalize_(MPI_Fint* error) { tell(error, MPI_Finalize()); }

decltype(mpi_allreduce_) mpi_allreduce_f08_ [[gnu::alias("mpi_allreduce_")]];
decltype(mpi_iallreduce_) mpi_iallreduce_f08_ [[gnu::alias("mpi_iallreduce_")]];
decltype(mpi_reduce_scatter_) mpi_reduce_scatter_f08_ [[gnu::alias("mpi_reduce_scatter_")]];
decltype(mpi_reduce_scatter_block_) mpi_reduce_scatter_block_f08_
    [[gnu::alias("mpi_reduce_scatter_block_")]];
decltype(mpi_allgather_) mpi_allgather_f08_ [[gnu::alias("mpi_allgather_")]];
decltype(mpi_bcast_) mpi_bcast_f08_ [[gnu::alias("mpi_bcast_")]];
decltype(mpi_reduce_) mpi_reduce_f08_ [[gnu::alias("mpi_reduce_")]];
decltype(mpi_barrier_) mpi_barrier_f08_ [[gnu::alias("mpi_barrier_")]];
decltype(mpi_finalize_) mpi_finalize_f08_ [[gnu::alias("mpi_finalize_")]];

}  // extern "C"
