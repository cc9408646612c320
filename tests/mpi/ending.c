/* SPDX-License-Identifier: Apache-2.0
 * How programs end: with communicators that were never freed, with callbacks of MPI_COMM_SELF that
 * still call collectives, long before others, or without a collective at all. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/mpi/rank.h"

static int last_sum;

/* MPI_Finalize calls it; MPI is still whole then. */
static int at_finalize(MPI_Comm comm, int keyval, void* value, void* extra) {
  int in = 1;
  (void)comm, (void)keyval, (void)value, (void)extra;
  return MPI_Allreduce(&in, &last_sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void set_callback(void) {
  int keyval;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}

/* Half of the ranks set the callback before the first collective, half after it. */
static void use(void) {
  MPI_Comm half, twin;
  int in = rank, out = 0;
  if (rank % 2 == 0) set_callback();
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank % 2 == 1) set_callback();
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Comm_dup(half, &twin);
  MPI_Barrier(half); /* never freed, nor its twin */
  if (rank % 2 == 1) MPI_Barrier(twin);
  expect(out == size - 1, "maximum %d", out);
  expect(served("MPI_Allreduce") == 1, "not served");
}

static double seconds(struct timeval time) {
  return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

/* All but the last rank wait in MPI_Finalize for that one, and sleep meanwhile. */
static int wait_for_a_late_rank(void) {
  struct rusage before, after;
  double used;
  begin(MPI_THREAD_SINGLE);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) sleep(3);
  getrusage(RUSAGE_THREAD, &before);
  MPI_Finalize();
  getrusage(RUSAGE_THREAD, &after);
  used = seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) -
         seconds(before.ru_stime);
  expect(used < 1, "%g s of processor time in MPI_Finalize", used);
  expect(rank == size - 1 || after.ru_nvcsw - before.ru_nvcsw > 50, "%ld times asleep",
         after.ru_nvcsw - before.ru_nvcsw);
  return failed();
}

int main(int argc, char** argv) {
  const int nothing = argc > 1 && strcmp(argv[1], "nothing") == 0;
  int finalized = 0, code;
  if (argc > 1 && strcmp(argv[1], "late") == 0) return wait_for_a_late_rank();
  begin(MPI_THREAD_SINGLE);
  if (!nothing) use();
  code = end();
  MPI_Finalized(&finalized);
  expect(finalized, "not finalized");
  expect(nothing || last_sum == size, "the callback's sum is %d", last_sum);
  return code != 0 || failed();
}
