/* SPDX-License-Identifier: Apache-2.0
 * What Echelon leaves to MPI, and data of types that differ from rank to rank as MPI allows. */
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/rank.h"

/* Keeps the first operand's parity: not commutative. */
static void first_wins(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  memcpy(inout, in, (size_t)*count * sizeof(int));
}

static void expect_passed(const char* function, uint64_t before, uint64_t before_served) {
  expect(passed(function) == before + 1, "%s: passed on %d instead of %d", function,
         (int)passed(function), (int)before + 1);
  expect(served(function) == before_served, "%s was served", function);
}

static void user_op(void) {
  const uint64_t p = passed("MPI_Allreduce"), s = served("MPI_Allreduce");
  MPI_Op op;
  int in = rank + 10, out = -1;
  MPI_Op_create(first_wins, 0, &op);
  MPI_Allreduce(&in, &out, 1, MPI_INT, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  expect(out == 10, "the first operand's value is 10, not %d", out);
  expect_passed("MPI_Allreduce", p, s);
}

static void other_types_and_ops(void) {
  uint64_t p = passed("MPI_Allreduce"), s = served("MPI_Allreduce");
  short in = (short)rank, out = -1;
  int bits = 1 << rank, all = 0;
  struct {
    double value;
    int index;
  } pair = {rank == 1 ? 9.0 : 1.0, rank}, best;
  MPI_Allreduce(&in, &out, 1, MPI_SHORT, MPI_MAX, MPI_COMM_WORLD);
  expect(out == size - 1, "maximum of short is %d", out);
  expect_passed("MPI_Allreduce", p, s);
  MPI_Allreduce(&bits, &all, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
  expect(all == (1 << size) - 1, "or of bits is %d", all);
  expect_passed("MPI_Allreduce", p + 1, s);
  MPI_Allreduce(&pair, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  expect(best.index == 1 && best.value == 9.0, "maxloc finds %d", best.index);
  expect_passed("MPI_Allreduce", p + 2, s);
}

static void unequal_blocks(void) {
  const uint64_t p = passed("MPI_Reduce_scatter"), s = served("MPI_Reduce_scatter");
  int counts[16], total = 0, out[16] = {0};
  for (int r = 0; r < size; ++r) total += counts[r] = r + 1;
  int* in = malloc((size_t)total * sizeof *in);
  for (int i = 0; i < total; ++i) in[i] = i;
  MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i <= rank; ++i)
    expect(out[i] == size * (rank * (rank + 1) / 2 + i), "unequal block: %d", out[i]);
  free(in);
  expect_passed("MPI_Reduce_scatter", p, s);
}

static void intercommunicator(void) {
  const uint64_t s = served("MPI_Allreduce");
  MPI_Comm half, between;
  int in = 1, out = 0;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &between);
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, between);
  expect(out == (rank % 2 == 0 ? size / 2 : (size + 1) / 2), "sum of the other group is %d", out);
  MPI_Barrier(between);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
  expect(served("MPI_Allreduce") == s, "an intercommunicator was served");
}

static void alone(void) {
  const uint64_t p = passed("MPI_Allreduce"), s = served("MPI_Allreduce");
  int in = 3, out = 0;
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  expect(out == 3, "sum of one is %d", out);
  MPI_Allreduce(&in, &out, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(passed("MPI_Allreduce") == p + 2 && served("MPI_Allreduce") == s, "one rank, no elements");
}

/* The first collective on a communicator must not wait when it is a nonblocking one. */
static void nonblocking_first(void) {
  const uint64_t s = served("MPI_Iallreduce");
  MPI_Comm twin;
  MPI_Request request;
  int in = 1, out = 0, token = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  if (rank == 1) MPI_Recv(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, twin, &request);
  if (rank == 0) MPI_Send(&token, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(out == size, "sum is %d", out);
  expect(served("MPI_Iallreduce") == s, "served before the ranks had met");
  MPI_Comm_free(&twin);
}

/* The same signature in different types: rank 0 has ints one after the other, the others every
 * second of a vector, in a struct at an absolute address. */
static void mixed_broadcast(int root) {
  const uint64_t s = served("MPI_Bcast");
  int data[20];
  for (int i = 0; i < 20; ++i) data[i] = rank == root ? i : -1;
  if (rank == 0) {
    int plain[10];
    for (int i = 0; i < 10; ++i) plain[i] = rank == root ? 2 * i : -1;
    MPI_Bcast(plain, 10, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < 10; ++i) data[2 * i] = plain[i];
  } else {
    MPI_Datatype vector, absolute;
    MPI_Aint address;
    const int one = 1;
    MPI_Type_vector(10, 1, 2, MPI_INT, &vector);
    MPI_Get_address(data, &address);
    MPI_Type_create_struct(1, &one, &address, &vector, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Bcast(MPI_BOTTOM, 1, absolute, root, MPI_COMM_WORLD);
    MPI_Type_free(&absolute);
    MPI_Type_free(&vector);
  }
  for (int i = 0; i < 10; ++i) {
    expect(data[2 * i] == 2 * i, "bcast from %d: [%d] is %d", root, 2 * i, data[2 * i]);
    expect(data[2 * i + 1] == (rank == root ? 2 * i + 1 : -1), "a gap was written");
  }
  expect(served("MPI_Bcast") == s + 1, "was not served");
}

/* Blocks with a gap inside, on odd ranks. */
static void mixed_allgather(int in_place) {
  const uint64_t s = served("MPI_Allgather");
  int all[3 * 16], mine[3] = {rank, -7, rank + 100};
  const int spread = rank % 2;
  MPI_Datatype gap, block;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gap);
  MPI_Type_create_resized(gap, 0, 3 * sizeof(int), &block);
  MPI_Type_commit(&block);
  for (int i = 0; i < 48; ++i) all[i] = -7;
  if (spread) {
    if (in_place) memcpy(all + 3 * rank, mine, sizeof mine);
    MPI_Allgather(in_place ? MPI_IN_PLACE : mine, 1, block, all, 1, block, MPI_COMM_WORLD);
  } else {
    int packed[2 * 16], own[2] = {rank, rank + 100};
    if (in_place) memcpy(packed + 2 * rank, own, sizeof own);
    MPI_Allgather(in_place ? MPI_IN_PLACE : own, 2, MPI_INT, packed, 2, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r) all[3 * r] = packed[2 * r], all[3 * r + 2] = packed[2 * r + 1];
  }
  MPI_Type_free(&block);
  MPI_Type_free(&gap);
  for (int r = 0; r < size; ++r)
    expect(all[3 * r] == r && all[3 * r + 1] == -7 && all[3 * r + 2] == r + 100,
           "allgather: block %d is %d %d %d", r, all[3 * r], all[3 * r + 1], all[3 * r + 2]);
  expect(served("MPI_Allgather") == s + 1, "was not served");
}

int main(void) {
  begin(MPI_THREAD_SINGLE);
  user_op();
  other_types_and_ops();
  unequal_blocks();
  intercommunicator();
  alone();
  nonblocking_first();
  for (int root = 0; root < size; ++root) mixed_broadcast(root);
  mixed_allgather(0);
  mixed_allgather(1);
  return end();
}
