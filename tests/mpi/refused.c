/* SPDX-License-Identifier: Apache-2.0
 * Where one rank cannot take part, all leave their collectives to MPI, and one line says why. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/rank.h"

static int has_cuda;

/* Stands in for the one of an Open MPI that was built with CUDA. */
int MPIX_Query_cuda_support(void) { return has_cuda; }

static int kept_stderr, pipe_ends[2];

static void catch_stderr(void) {
  expect(pipe2(pipe_ends, O_NONBLOCK) == 0, "pipe2");
  kept_stderr = dup(2);
  dup2(pipe_ends[1], 2);
}

/* Lines of libechelon-mpi.so on all ranks; each says `why`. */
static int lines_said(const char* why) {
  static char text[65536];
  int mine = 0, all = 0;
  dup2(kept_stderr, 2);
  const ssize_t length = read(pipe_ends[0], text, sizeof text - 1);
  for (const char* at = length > 0 ? text : NULL; at != NULL && (at = strstr(at, "echelon-mpi:"));
       ++at)
    ++mine;
  expect(mine == 0 || strstr(text, why) != NULL, "no word of %s in: %s", why, text);
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

static void use(MPI_Comm comm) {
  int in = 1, out = 0, ranks;
  MPI_Comm_size(comm, &ranks);
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
  expect(out == ranks, "sum %d of %d", out, ranks);
  MPI_Barrier(comm);
}

/* How: "cuda" (rank 1's MPI), "interface" (rank 0 cannot listen), "settings" (rank 1 cannot join);
 * and a word of the line. */
int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  const char* why = argc > 2 ? argv[2] : "";
  MPI_Comm twin;
  begin(MPI_THREAD_SINGLE);
  has_cuda = rank == 1 && strcmp(how, "cuda") == 0;
  if (rank == 0 && strcmp(how, "interface") == 0) setenv("ECHELON_INTERFACE", "nosuch0", 1);
  if (rank == 1 && strcmp(how, "settings") == 0) setenv("ECHELON_SPIN", "fast", 1);
  catch_stderr();
  use(MPI_COMM_WORLD);
  use(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  use(twin);
  MPI_Comm_free(&twin);
  const int lines = lines_said(why);
  expect(lines == (*how == 0 ? 0 : 1), "%d lines", lines);
  expect(served("MPI_Allreduce") == (*how == 0 ? 3 : 0), "%d calls were served",
         (int)served("MPI_Allreduce"));
  return end();
}
