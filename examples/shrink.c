/* SPDX-License-Identifier: Apache-2.0
 * Goes on when ranks die. In each step the ranks share out the numbers below 1000 and add them up;
 * the rank that is named dies in step 3:  echelon run --keep-going -n 4 -- ./shrink 2 */
#include <echelon/echelon.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int is_for_shrink(ech_status status) {
  return status == ECH_ERR_PEER || status == ECH_ERR_TIMEOUT || status == ECH_ERR_ABORTED;
}

/* Replaces a communicator that has failed by one of the ranks that are left, and agrees with them
 * on the first step that not all of them have done. */
static ech_status go_on(ech_comm** comm, int* step) {
  const int mine = *step;
  ech_status status;
  do {
    ech_comm* survivors;
    do status = ech_comm_shrink(*comm, &survivors);
    while (status == ECH_ERR_PEER || status == ECH_ERR_TIMEOUT); /* one more was lost meanwhile */
    if (status != ECH_OK) return status;
    ech_comm_destroy(*comm);
    *comm = survivors;
    status = ech_allreduce(&mine, step, 1, ECH_INT32, ECH_MIN, *comm);
  } while (is_for_shrink(status));
  return status;
}

/* This rank's share of the work, however many ranks there are. */
static double my_part(ech_comm* comm) {
  int rank, size;
  double sum = 0;
  ech_comm_rank(comm, &rank);
  ech_comm_size(comm, &size);
  for (int i = rank; i < 1000; i += size) sum += i;
  return sum;
}

int main(int argc, char** argv) {
  ech_comm* comm;
  ech_status status = ech_comm_create(&comm, NULL);
  int rank = 0, step = 0;
  if (status == ECH_OK) ech_comm_rank(comm, &rank);
  while (status == ECH_OK && step < 6) {
    double part = my_part(comm), sum = 0;
    if (argc > 1 && rank == atoi(argv[1]) && step == 3) raise(SIGKILL);
    status = ech_allreduce(&part, &sum, 1, ECH_FLOAT64, ECH_SUM, comm);
    if (status == ECH_OK) {
      int size;
      ech_comm_size(comm, &size);
      printf("step %d on %d ranks: %g\n", step++, size, sum);
    } else if (is_for_shrink(status)) {
      fprintf(stderr, "rank %d: %s\n", rank, ech_last_error());
      status = go_on(&comm, &step);
    }
  }
  if (status == ECH_OK) status = ech_comm_destroy(comm);
  if (status != ECH_OK) fprintf(stderr, "rank %d: %s\n", rank, ech_last_error());
  return status != ECH_OK;
}
