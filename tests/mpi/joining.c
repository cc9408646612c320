/* SPDX-License-Identifier: Apache-2.0
 * While a rank waits for the others to make Echelon's communicator with it, its MPI moves: rank 1
 * comes only when rank 0, which waits there, has taken a message. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <echelon/echelon.h>

#include "tests/mpi/rank.h"

/* Stands in for the library's. */
ech_status ech_comm_create(ech_comm** comm, const ech_comm_options* options) {
  const int message = 7;
  ech_status (*real)(ech_comm**, const ech_comm_options*);
  *(void**)&real = dlsym(RTLD_NEXT, "ech_comm_create");
  if (rank == 1) MPI_Ssend(&message, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  return real(comm, options);
}

int main(void) {
  int message = 0, sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  begin(MPI_THREAD_MULTIPLE);
  if (rank == 0) MPI_Irecv(&message, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(sum == size * (size - 1) / 2 && served("MPI_Allreduce") == 1, "sum %d, or not served",
         sum);
  expect(rank != 0 || message == 7, "message %d", message);
  return end();
}
