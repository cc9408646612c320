/* SPDX-License-Identifier: Apache-2.0
 * What is wrong with a call is told as MPI tells it, and what happens to the ranks reaches the
 * communicator's error handler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/rank.h"

static int calls, last_code;

static void note(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  ++calls;
  last_code = *code;
}

static int class_of(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

/* As without the library: one call of the handler, MPI's class of error. */
static void expect_refused(int code, int class, const char* what) {
  expect(calls == 1 && class_of(code) == class, "%s: %d calls of the handler, class %d not %d",
         what, calls, class_of(code), class);
  calls = 0;
}

static void wrong_arguments(void) {
  int in[4] = {1, 2, 3, 4}, out[4];
  MPI_Comm w = MPI_COMM_WORLD;
  expect_refused(MPI_Allreduce(in, out, -1, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT, "count");
  expect_refused(MPI_Allreduce(in, out, 4, MPI_DATATYPE_NULL, MPI_SUM, w), MPI_ERR_OP, "type");
  expect_refused(MPI_Allreduce(in, out, 4, MPI_INT, MPI_OP_NULL, w), MPI_ERR_OP, "op");
  expect_refused(MPI_Allreduce(in, in, 4, MPI_INT, MPI_SUM, w), MPI_ERR_BUFFER, "one buffer");
  expect_refused(MPI_Bcast(in, 4, MPI_INT, size, w), MPI_ERR_ROOT, "root");
  expect_refused(MPI_Bcast(in, -4, MPI_INT, 0, w), MPI_ERR_COUNT, "bcast's count");
  expect_refused(MPI_Reduce(in, out, 4, MPI_INT, MPI_SUM, -5, w), MPI_ERR_ROOT, "reduce's root");
  expect_refused(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "no communicator");
}

/* Stands in for MPI's own, which fails when the test says so, as without memory. */
static int unpacking_fails;

int PMPI_Unpack(const void* packed, int bytes, int* at, void* to, int count, MPI_Datatype type,
                MPI_Comm comm) {
  static int (*real)(const void*, int, int*, void*, int, MPI_Datatype, MPI_Comm);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Unpack");
  return unpacking_fails ? MPI_ERR_NO_MEM : real(packed, bytes, at, to, count, type, comm);
}

/* What comes goes through a buffer, since the type has gaps. */
static void unpacking(void) {
  int data[6] = {0}, all[6 * 8] = {0}, fails;
  MPI_Datatype gaps;
  MPI_Type_vector(3, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  for (fails = 0; fails < 2; ++fails) {
    const int expected = fails ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    unpacking_fails = fails;
    expect(MPI_Bcast(data, 1, gaps, 0, MPI_COMM_WORLD) == (rank == 0 ? MPI_SUCCESS : expected),
           "bcast hides what MPI_Unpack says");
    expect(MPI_Allgather(data, 3, MPI_INT, all, 1, gaps, MPI_COMM_WORLD) == expected,
           "allgather hides what MPI_Unpack says");
  }
  unpacking_fails = 0;
  MPI_Type_free(&gaps);
}

/* With a deadline, which a user may set, a rank that is late fails the call on all others: with
 * Echelon's words, through the handler. MPI works on. */
static void late_rank(void) {
  char text[MPI_MAX_ERROR_STRING];
  int in = 1, out = 0, length, code;
  if (rank == size - 1) sleep(4);
  code = MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Error_string(code, text, &length);
  expect(calls == 1 && last_code == code && class_of(code) == MPI_ERR_OTHER,
         "%d calls of the handler, class %d", calls, class_of(code));
  expect(strstr(text, "Echelon: ") == text, "text: %s", text);
  PMPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(out == size, "MPI's sum is %d", out);
}

int main(int argc, char** argv) {
  MPI_Errhandler handler;
  int token = 0;
  begin(MPI_THREAD_SINGLE);
  MPI_Comm_create_errhandler(note, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Barrier(MPI_COMM_WORLD);
  wrong_arguments();
  MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
  expect(served("MPI_Bcast") == 1 && served("MPI_Barrier") == 1, "not served");
  unpacking();
  if (argc > 1 && strcmp(argv[1], "late") == 0) late_rank();
  MPI_Errhandler_free(&handler);
  return end();
}
