/* SPDX-License-Identifier: Apache-2.0
 * MPI_Allreduce of f32 sums, timed the way `echelon perf` times (bench/README.md): the median over
 * samples of the slowest rank's time, each of as many operations as fit in 1 ms.
 *   mpirun -n 2 mpi_allreduce SIZE...      one line "bytes microseconds" per size */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSamples = 20, kMostBatch = 1000, kWarmups = 5 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* The slowest rank's seconds per operation. */
static double sample(const float* in, float* out, int count, int operations) {
  double mine, slowest;
  MPI_Barrier(MPI_COMM_WORLD);
  mine = MPI_Wtime();
  for (int i = 0; i < operations; ++i)
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  mine = (MPI_Wtime() - mine) / operations;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static double median(const float* in, float* out, int count) {
  double times[kSamples], each = 0;
  int batch, samples;
  for (int i = 0; i < kWarmups; ++i) each = sample(in, out, count, 1);
  batch = each * kMostBatch < 1e-3 ? kMostBatch : (int)(1e-3 / each);
  if (batch < 1) batch = 1;
  samples = each > 0.1 ? 5 : kSamples;
  sample(in, out, count, batch);
  for (int i = 0; i < samples; ++i) times[i] = sample(in, out, count, batch);
  qsort(times, samples, sizeof *times, by_value);
  return times[samples / 2];
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    const size_t bytes = strtoull(argv[i], NULL, 10);
    float *in = malloc(bytes), *out = malloc(bytes);
    double seconds;
    if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t e = 0; e < bytes / sizeof *in; ++e) in[e] = out[e] = (float)(e % 7);
    seconds = median(in, out, (int)(bytes / sizeof *in));
    if (rank == 0) printf("%zu %.3f\n", bytes, seconds * 1e6);
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
