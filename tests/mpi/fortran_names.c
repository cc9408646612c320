/* SPDX-License-Identifier: Apache-2.0
 * The functions that Fortran programs call, as their compilers call them. MPI_IN_PLACE is the
 * address of a variable that a Fortran program has in itself. */
#include "tests/mpi/rank.h"

int mpi_fortran_in_place_;

void mpi_allreduce_(void*, void*, int*, int*, int*, int*, int*);
void mpi_iallreduce_(void*, void*, int*, int*, int*, int*, int*, int*);
void mpi_reduce_scatter_(void*, void*, int*, int*, int*, int*, int*);
void mpi_reduce_scatter_block_(void*, void*, int*, int*, int*, int*, int*);
void mpi_allgather_(void*, int*, int*, void*, int*, int*, int*, int*);
void mpi_bcast_(void*, int*, int*, int*, int*, int*);
void mpi_reduce_(void*, void*, int*, int*, int*, int*, int*, int*);
void mpi_barrier_(int*, int*);
void mpi_wait_(int*, void*, int*);
void mpi_finalize_(int*);

static int comm, integer, sum, one = 1, error = -1;

static void expect_done(const char* name, int good) {
  expect(error == MPI_SUCCESS && good, "%s: error %d or a wrong result", name, error);
  expect(served(name) > 0 && passed(name) == 0, "%s was not served", name);
  error = -1;
}

static void reductions(void) {
  int in = rank + 1, out = 0, root = 1, request = 0, status[16], many[16], counts[16];
  const int total = size * (size + 1) / 2;
  mpi_allreduce_(&in, &out, &one, &integer, &sum, &comm, &error);
  expect_done("MPI_Allreduce", out == total);
  mpi_allreduce_(&mpi_fortran_in_place_, &in, &one, &integer, &sum, &comm, &error);
  expect_done("MPI_Allreduce", in == total);
  in = rank + 1;
  mpi_iallreduce_(&in, &out, &one, &integer, &sum, &comm, &request, &error);
  mpi_wait_(&request, status, &error);
  expect_done("MPI_Iallreduce", out == total);
  out = -1;
  mpi_reduce_(&in, &out, &one, &integer, &sum, &root, &comm, &error);
  expect_done("MPI_Reduce", out == (rank == 1 ? total : -1));
  for (int i = 0; i < size; ++i) counts[i] = 1, many[i] = i + rank;
  mpi_reduce_scatter_(many, &out, counts, &integer, &sum, &comm, &error);
  expect_done("MPI_Reduce_scatter", out == size * rank + size * (size - 1) / 2);
  mpi_reduce_scatter_block_(&mpi_fortran_in_place_, many, &one, &integer, &sum, &comm, &error);
  expect_done("MPI_Reduce_scatter_block", many[0] == size * rank + size * (size - 1) / 2);
}

static void copies(void) {
  int in = rank + 1, many[16], root = 1, good = 1;
  mpi_allgather_(&in, &one, &integer, many, &one, &integer, &comm, &error);
  for (int r = 0; r < size; ++r) good &= many[r] == r + 1;
  expect_done("MPI_Allgather", good);
  mpi_bcast_(&in, &one, &integer, &root, &comm, &error);
  expect_done("MPI_Bcast", in == 2);
  mpi_barrier_(&comm, &error);
  expect_done("MPI_Barrier", 1);
}

int main(void) {
  begin(MPI_THREAD_SINGLE);
  comm = MPI_Comm_c2f(MPI_COMM_WORLD);
  integer = MPI_Type_c2f(MPI_INTEGER);
  sum = MPI_Op_c2f(MPI_SUM);
  reductions();
  copies();
  mpi_finalize_(&error);
  expect(error == MPI_SUCCESS, "mpi_finalize_: %d", error);
  return failed();
}
