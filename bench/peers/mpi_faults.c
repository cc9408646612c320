/* SPDX-License-Identifier: Apache-2.0
 * bench/faults with MPI, under mpirun. */
#include <mpi.h>

#include "fault.h"

static int step(int count, float* data, char* text, size_t room) {
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  int error = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (error != MPI_SUCCESS) {
    MPI_Error_string(error, words, &length);
    snprintf(text, room, "%s", words);
  }
  return error != MPI_SUCCESS;
}

int main(int argc, char** argv) {
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  fault_run(argc, argv, size, step);
  return 0;
}
