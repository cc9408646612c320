/* SPDX-License-Identifier: Apache-2.0
 * Every served function, type, op, in place and not, on several communicators, beside MPI's own. */
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/rank.h"

enum { kMost = 3000, kRanks = 16 };
typedef struct Kind {
  MPI_Datatype type;
  const char* name;
  int is_float;
} Kind;

static MPI_Comm comm;
static int self, ranks;
static char mine[kMost * kRanks * 8], ours[kMost * kRanks * 8], theirs[kMost * kRanks * 8];

static size_t width(MPI_Datatype type) {
  int bytes;
  MPI_Type_size(type, &bytes);
  return (size_t)bytes;
}

/* Small numbers, so that sums and products are exact in every type and order. */
static void fill(const Kind* kind, int count) {
  for (int i = 0; i < count; ++i) {
    const int value = 1 + (i + self) % 2;
    const size_t bytes = width(kind->type);
    char* at = mine + (size_t)i * bytes;
    const float f = (float)value;
    const double d = value;
    const int64_t whole = value;
    if (kind->is_float)
      memcpy(at, bytes == 4 ? (const void*)&f : &d, bytes);
    else
      memcpy(at, &whole, bytes); /* little-endian */
  }
}

static void compare(const char* what, const Kind* kind, size_t bytes) {
  expect(memcmp(ours, theirs, bytes) == 0, "%s of %s differs from MPI's", what, kind->name);
}

static void allreduces(const Kind* kind, MPI_Op op, int n) {
  const size_t bytes = (size_t)n * width(kind->type);
  MPI_Request request;
  fill(kind, n);
  PMPI_Allreduce(mine, theirs, n, kind->type, op, comm);
  memset(ours, 77, bytes);
  expect(MPI_Allreduce(mine, ours, n, kind->type, op, comm) == MPI_SUCCESS, "allreduce");
  compare("allreduce", kind, bytes);
  memcpy(ours, mine, bytes);
  MPI_Allreduce(MPI_IN_PLACE, ours, n, kind->type, op, comm);
  compare("allreduce in place", kind, bytes);
  memset(ours, 77, bytes);
  MPI_Iallreduce(mine, ours, n, kind->type, op, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  compare("iallreduce", kind, bytes);
  memcpy(ours, mine, bytes);
  MPI_Iallreduce(MPI_IN_PLACE, ours, n, kind->type, op, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  compare("iallreduce in place", kind, bytes);
}

static void reduces(const Kind* kind, MPI_Op op, int n) {
  const size_t bytes = (size_t)n * width(kind->type);
  const int root = (n + 1) % ranks, am_root = self == root;
  fill(kind, n);
  memset(theirs, 77, bytes);
  memset(ours, 77, bytes);
  PMPI_Reduce(mine, theirs, n, kind->type, op, root, comm);
  MPI_Reduce(mine, am_root ? ours : NULL, n, kind->type, op, root, comm);
  compare("reduce", kind, bytes);
  if (am_root) memcpy(ours, mine, bytes);
  MPI_Reduce(am_root ? MPI_IN_PLACE : mine, ours, n, kind->type, op, root, comm);
  compare("reduce in place", kind, bytes);
}

static void reduce_scatters(const Kind* kind, MPI_Op op, int n) {
  const size_t block = (size_t)n * width(kind->type), all = block * (size_t)ranks;
  int counts[kRanks];
  for (int r = 0; r < ranks; ++r) counts[r] = n;
  fill(kind, n * ranks);
  memset(ours, 77, all);
  memset(theirs, 77, all);
  PMPI_Reduce_scatter_block(mine, theirs, n, kind->type, op, comm);
  MPI_Reduce_scatter_block(mine, ours, n, kind->type, op, comm);
  compare("reduce_scatter_block", kind, all);
  memset(ours, 77, block);
  MPI_Reduce_scatter(mine, ours, counts, kind->type, op, comm);
  compare("reduce_scatter", kind, all);
  memcpy(ours, mine, all);
  memcpy(theirs + block, mine + block, all - block); /* what lies behind the result stays */
  MPI_Reduce_scatter_block(MPI_IN_PLACE, ours, n, kind->type, op, comm);
  compare("reduce_scatter_block in place", kind, all);
  memcpy(ours, mine, all);
  MPI_Reduce_scatter(MPI_IN_PLACE, ours, counts, kind->type, op, comm);
  compare("reduce_scatter in place", kind, all);
}

static void copies(const Kind* kind, int n) {
  const size_t block = (size_t)n * width(kind->type), all = block * (size_t)ranks;
  const int root = n % ranks;
  fill(kind, n);
  memset(ours, 77, all);
  PMPI_Allgather(mine, n, kind->type, theirs, n, kind->type, comm);
  MPI_Allgather(mine, n, kind->type, ours, n, kind->type, comm);
  compare("allgather", kind, all);
  memset(ours, 77, all);
  memcpy(ours + block * (size_t)self, mine, block);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, ours, n, kind->type, comm);
  compare("allgather in place", kind, all);
  memcpy(ours, mine, block);
  memcpy(theirs, mine, block);
  PMPI_Bcast(theirs, n, kind->type, root, comm);
  MPI_Bcast(ours, n, kind->type, root, comm);
  compare("bcast", kind, block);
}

static void everything(MPI_Comm on) {
  static const Kind kinds[] = {{MPI_INT8_T, "int8_t", 0},
                               {MPI_UINT8_T, "uint8_t", 0},
                               {MPI_INT, "int", 0},
                               {MPI_UNSIGNED, "unsigned", 0},
                               {MPI_LONG, "long", 0},
                               {MPI_UINT64_T, "uint64_t", 0},
                               {MPI_FLOAT, "float", 1},
                               {MPI_DOUBLE, "double", 1},
                               {MPI_INTEGER, "INTEGER", 0},
                               {MPI_REAL, "REAL", 1},
                               {MPI_LONG_LONG, "long long", 0},
                               {MPI_DOUBLE_PRECISION, "DP", 1}};
  static const int counts[] = {1, 7, kMost};
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  comm = on;
  MPI_Comm_rank(comm, &self);
  MPI_Comm_size(comm, &ranks);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
      for (int op = 0; op < 4; ++op) {
        allreduces(&kinds[k], ops[op], counts[c]);
        reduces(&kinds[k], ops[op], counts[c]);
        reduce_scatters(&kinds[k], ops[op], counts[c]);
      }
      copies(&kinds[k], counts[c]);
    }
  MPI_Barrier(comm);
}

/* Rounding depends on the order of the operands: another than MPI's, but one for all ranks. */
static void same_on_all(void) {
  enum { kNumbers = 5000 };
  static double in[kNumbers], out[kNumbers], first[kNumbers];
  for (int i = 0; i < kNumbers; ++i) in[i] = 1.0 / (1 + i + 13 * rank);
  MPI_Allreduce(in, out, kNumbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  memcpy(first, out, sizeof out);
  PMPI_Bcast(first, kNumbers, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  expect(memcmp(first, out, sizeof out) == 0, "the bits of a sum differ from rank 0's");
}

int main(void) {
  static const char* const names[] = {
      "MPI_Allreduce", "MPI_Iallreduce", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
      "MPI_Allgather", "MPI_Bcast",      "MPI_Reduce",         "MPI_Barrier"};
  MPI_Comm half, twin;
  begin(MPI_THREAD_SINGLE);
  everything(MPI_COMM_WORLD);
  same_on_all();
  for (int f = 0; f < 8; ++f) {
    expect(served(names[f]) > 0, "%s was not served", names[f]);
    expect(passed(names[f]) == 0, "%s was passed on", names[f]);
    if (f < 7) expect(bytes_served(names[f]) > 0, "%s served no bytes", names[f]);
  }
  expect(served("MPI_Barrier") == 1, "%d barriers", (int)served("MPI_Barrier"));
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  everything(half);
  MPI_Comm_dup(half, &twin);
  MPI_Comm_free(&half);
  everything(twin);
  MPI_Comm_free(&twin);
  return end();
}
