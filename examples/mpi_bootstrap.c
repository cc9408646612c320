/* SPDX-License-Identifier: Apache-2.0
 * Echelon inside an MPI program: MPI only brings the ranks together.
 *   mpicc mpi_bootstrap.c -o mpi_bootstrap $(pkg-config --cflags --libs echelon)
 *   mpirun -n 4 ./mpi_bootstrap
 * As root, and with more ranks than cores: mpirun --allow-run-as-root --oversubscribe ... */
#include <echelon/echelon.h>
#include <mpi.h>
#include <stdio.h>

static int gather(const void* send, void* recv, size_t bytes, void* context) {
  const MPI_Comm* comm = context;
  return MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, *comm) !=
         MPI_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Comm world = MPI_COMM_WORLD;
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  ech_comm* comm;
  double value, sum = 0;
  int failed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &options.rank);
  MPI_Comm_size(world, &options.size);
  options.allgather = gather;
  options.allgather_context = &world;
  value = options.rank + 1;
  failed = ech_comm_create(&comm, &options) != ECH_OK ||
           ech_allreduce(&value, &sum, 1, ECH_FLOAT64, ECH_SUM, comm) != ECH_OK ||
           ech_comm_destroy(comm) != ECH_OK;
  if (failed) fprintf(stderr, "rank %d: %s\n", options.rank, ech_last_error());
  if (!failed) printf("rank %d of %d: sum %g\n", options.rank, options.size, sum);
  MPI_Finalize();
  return failed;
}
