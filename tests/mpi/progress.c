/* SPDX-License-Identifier: Apache-2.0
 * Programs that are right only if MPI moves while Echelon is waited for, and Echelon while MPI is.
 * Where either does not, they hang. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/rank.h"

enum { kMuch = 4 << 20 }; /* ints: by rendezvous, which needs both sides */

static int* numbers(int value) {
  int* all = malloc(sizeof(int) * kMuch);
  for (int i = 0; i < kMuch; ++i) all[i] = value;
  return all;
}

/* Rank 0's message leaves only while rank 0 is in the allreduce, to which rank 1 comes later. */
static void send_then_reduce(void) {
  int *data = numbers(rank), in = 1, out = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Isend(data, kMuch, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
  if (rank == 1) MPI_Recv(data, kMuch, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(out == size && data[kMuch - 1] == (rank == 1 ? 0 : rank), "message and sum %d", out);
  free(data);
}

/* Rank 0 is done with the broadcast when its bytes are with UCX, and then waits for an answer. */
static void broadcast_then_receive(void) {
  int *data = numbers(rank == 0 ? 5 : 0), answer = 0;
  for (int round = 0; round < 3; ++round) {
    MPI_Bcast(data, kMuch, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Send(data + kMuch - 1, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(&answer, 1, MPI_INT, size - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(rank != 0 || answer == 5, "the last rank has received %d", answer);
  }
  free(data);
}

/* The sum is waited for on rank 1 before it answers rank 0, which waits in MPI_Recv. */
static void reduce_behind_a_receive(void) {
  int *in = numbers(1), *out = numbers(0), token = 0;
  MPI_Request request;
  MPI_Iallreduce(in, out, kMuch, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank == 0) MPI_Recv(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
  expect(out[0] == size && out[kMuch - 1] == size, "sum %d", out[0]);
  free(in);
  free(out);
}

enum { kMany = 12, kWays = 5 };

static void complete(int way, MPI_Request* requests) {
  MPI_Status statuses[kMany];
  int index, flag = 0, some, indices[kMany], left = kMany;
  if (way == 0) MPI_Waitall(kMany, requests, statuses);
  if (way == 1)
    for (int k = 0; k < kMany; ++k) MPI_Waitany(kMany, requests, &index, MPI_STATUS_IGNORE);
  while (way == 2 && left > 0) {
    MPI_Waitsome(kMany, requests, &some, indices, MPI_STATUSES_IGNORE);
    left -= some;
  }
  while (way == 3 && !flag) MPI_Testall(kMany, requests, &flag, MPI_STATUSES_IGNORE);
  for (int k = 0; way == 4 && k < kMany; ++k)
    for (flag = 0; !flag;) MPI_Test(&requests[k], &flag, MPI_STATUS_IGNORE);
}

/* Many at once, among messages, ended in every way. */
static void many_requests(int way) {
  static int in[kMany], out[kMany];
  MPI_Request requests[kMany];
  int messages = 0, sent = rank, received = -1;
  for (int k = 0; k < kMany - 2; ++k) {
    in[k] = rank + k;
    MPI_Iallreduce(&in[k], &out[k], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k]);
  }
  messages = kMany - 2;
  MPI_Irecv(&received, 1, MPI_INT, (rank + 1) % size, 6, MPI_COMM_WORLD, &requests[messages++]);
  MPI_Isend(&sent, 1, MPI_INT, (rank + size - 1) % size, 6, MPI_COMM_WORLD, &requests[messages]);
  complete(way, requests);
  expect(received == (rank + 1) % size, "message from %d", received);
  for (int k = 0; k < kMany; ++k)
    expect(requests[k] == MPI_REQUEST_NULL, "way %d: request %d is left", way, k);
  for (int k = 0; k < kMany - 2; ++k)
    expect(out[k] == size * (size - 1) / 2 + size * k, "way %d: sum %d is %d", way, k, out[k]);
}

/* Freed before its operation has ended: that ends all the same. */
static void free_with_pending(void) {
  int in = 2, out = 0, flag = 0;
  MPI_Comm twin;
  MPI_Request request;
  MPI_Status status;
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Barrier(twin);
  MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, twin, &request);
  MPI_Comm_free(&twin);
  while (!flag) MPI_Request_get_status(request, &flag, &status);
  MPI_Wait(&request, &status);
  MPI_Get_count(&status, MPI_INT, &in);
  expect(out == 2 * size && in == 0, "sum %d, count %d", out, in);
}

/* In an order that differs from rank to rank; free does not wait. */
static void free_in_any_order(void) {
  MPI_Comm twins[6];
  int token = 0;
  for (int k = 0; k < 6; ++k) MPI_Comm_dup(MPI_COMM_WORLD, &twins[k]);
  for (int k = 0; k < 6; ++k) MPI_Barrier(twins[k]);
  if (rank == 0) MPI_Recv(&token, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int k = 0; k < 6; ++k) MPI_Comm_free(&twins[rank % 2 ? k : 5 - k]);
  if (rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
}

int main(void) {
  begin(MPI_THREAD_SINGLE);
  send_then_reduce();
  broadcast_then_receive();
  reduce_behind_a_receive();
  for (int way = 0; way < kWays; ++way) many_requests(way);
  free_with_pending();
  free_in_any_order();
  expect(served("MPI_Iallreduce") == 1 + kWays * (kMany - 2) + 1, "iallreduces: %d served",
         (int)served("MPI_Iallreduce"));
  expect(served("MPI_Bcast") == 3 && served("MPI_Allreduce") == 1, "not served");
  return end();
}
