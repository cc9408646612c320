/* SPDX-License-Identifier: Apache-2.0
 * MPI_THREAD_MULTIPLE: threads of a rank, each with a communicator of its own, at once. */
#include <pthread.h>

#include "tests/mpi/rank.h"

enum { kThreads = 3, kRounds = 200, kNumbers = 500 };

typedef struct Work {
  MPI_Comm comm;
  int number;
  int wrong;
} Work;

static void* run(void* argument) {
  Work* work = argument;
  int in[kNumbers], out[kNumbers], later[kNumbers], token = work->number;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Request request;
    for (int i = 0; i < kNumbers; ++i) in[i] = i + round + work->number * rank;
    MPI_Allreduce(in, out, kNumbers, MPI_INT, MPI_SUM, work->comm);
    MPI_Iallreduce(in, later, kNumbers, MPI_INT, MPI_MAX, work->comm, &request);
    MPI_Sendrecv_replace(&token, 1, MPI_INT, (rank + 1) % size, 0, (rank + size - 1) % size, 0,
                         work->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < kNumbers; ++i) {
      work->wrong += out[i] != size * (i + round) + work->number * size * (size - 1) / 2;
      work->wrong += later[i] != i + round + work->number * (size - 1);
    }
  }
  MPI_Comm_free(&work->comm);
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  Work works[kThreads];
  begin(MPI_THREAD_MULTIPLE);
  for (int t = 0; t < kThreads; ++t) {
    works[t] = (Work){MPI_COMM_NULL, t, 0};
    MPI_Comm_dup(MPI_COMM_WORLD, &works[t].comm);
  }
  for (int t = 0; t < kThreads; ++t) pthread_create(&threads[t], NULL, run, &works[t]);
  for (int t = 0; t < kThreads; ++t) {
    pthread_join(threads[t], NULL);
    expect(works[t].wrong == 0, "thread %d: %d wrong numbers", t, works[t].wrong);
  }
  expect(served("MPI_Allreduce") == kThreads * kRounds, "allreduces not served");
  expect(served("MPI_Iallreduce") == kThreads * kRounds, "iallreduces not served");
  return end();
}
