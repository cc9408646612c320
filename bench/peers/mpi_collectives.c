/* SPDX-License-Identifier: Apache-2.0
 * An MPI library's collectives on f32, timed as timing.h says.
 *   mpirun -n 2 mpi_collectives COLLECTIVE SIZE...      one row per size
 *   mpirun -n 2 mpi_collectives COLLECTIVE -n N SIZE    N operations, nothing else (for counters)
 * Sizes are bytes of the larger buffer, as with `echelon perf`. */
#include <mpi.h>

#include "timing.h"

static int rank, ranks;
static int
    block; /* elements of one rank's block, or of the whole buffer where there are no blocks */
static float *in, *out;

static void allreduce(void) { MPI_Allreduce(in, out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void reduce_scatter(void) {
  MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(void) {
  MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, MPI_COMM_WORLD);
}
static void broadcast(void) {
  MPI_Bcast(rank == 0 ? in : out, block, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static float sum_here(size_t e) { return timing_sum(e, ranks); }
static float sum_of_block(size_t e) { return timing_sum(e + (size_t)rank * (size_t)block, ranks); }
static float from_its_rank(size_t e) {
  return timing_input(e % (size_t)block, (int)(e / (size_t)block));
}
static float from_root(size_t e) { return timing_input(e, 0); }

/* Which of the buffers hold a block of every rank. */
static const struct collective {
  const char* name;
  void (*call)(void);
  float (*expected)(size_t element);
  int blocks_in, blocks_out, overlaps;
} collectives[] = {
    {"allreduce", allreduce, sum_here, 0, 0, 0},
    {"reduce_scatter", reduce_scatter, sum_of_block, 1, 0, 0},
    {"allgather", allgather, from_its_rank, 0, 1, 0},
    {"broadcast", broadcast, from_root, 0, 0, 1},
};

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static double combine(double mine, int largest) {
  double all;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, largest ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
  return all;
}

static float* buffer(size_t elements) {
  float* memory = malloc(elements * sizeof *memory + 1);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t e = 0; e < elements; ++e) memory[e] = timing_input(e, rank);
  return memory;
}

/* `operations`: how many to call, untimed; 0: as many as timing takes. */
static void measure(const struct collective* of, size_t bytes, int operations) {
  const struct timed_call timed = {of->call, barrier, combine, of->overlaps, rank == 0};
  const size_t blocks = of->blocks_in || of->blocks_out ? (size_t)ranks : 1;
  size_t elements = bytes / sizeof *in / blocks, results;
  struct timing median = {0, 0};
  double wrong = 0;
  if (elements == 0) elements = 1;
  block = (int)elements;
  in = buffer(elements * (of->blocks_in ? blocks : 1));
  out = buffer(results = elements * (of->blocks_out ? blocks : 1));
  if (operations == 0) median = timing_median(&timed);
  for (int i = 0; i < operations; ++i) of->call();
  for (size_t e = 0; e < results && operations == 0; ++e)
    wrong += (of->call == broadcast && rank == 0 ? in : out)[e] != of->expected(e);
  wrong = combine(wrong, 0);
  if (rank == 0) timing_print(elements * blocks * sizeof *in, median, wrong);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  const struct collective* of = NULL;
  int first = 2, operations = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives && argc > 1; ++i)
    if (strcmp(argv[1], collectives[i].name) == 0) of = &collectives[i];
  if (of == NULL) {
    if (rank == 0) fprintf(stderr, "usage: mpi_collectives COLLECTIVE [-n N] SIZE...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (argc > 3 && strcmp(argv[2], "-n") == 0) {
    operations = atoi(argv[3]);
    first = 4;
  }
  for (int i = first; i < argc; ++i) measure(of, strtoull(argv[i], NULL, 10), operations);
  MPI_Finalize();
  return 0;
}
