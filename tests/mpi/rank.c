/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/mpi/rank.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

int rank, size;
static int failures;

static uint64_t ask(const char* name, const char* function) {
  uint64_t (*count)(const char*) = NULL;
  *(void**)&count = dlsym(RTLD_DEFAULT, name);
  return count != NULL ? count(function) : 0;
}

uint64_t served(const char* function) { return ask("echelon_mpi_served", function); }
uint64_t passed(const char* function) { return ask("echelon_mpi_passed", function); }
uint64_t bytes_served(const char* function) { return ask("echelon_mpi_bytes", function); }

void begin(int thread_level) {
  int given;
  MPI_Init_thread(NULL, NULL, thread_level, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  expect(given >= thread_level, "thread level %d instead of %d", given, thread_level);
}

int end(void) {
  MPI_Finalize();
  return failures != 0;
}

int failed(void) { return failures != 0; }

void expect(int good, const char* what, ...) {
  va_list arguments;
  char text[512];
  if (good) return;
  ++failures;
  va_start(arguments, what);
  vsnprintf(text, sizeof text, what, arguments);
  va_end(arguments);
  if (failures <= 20) fprintf(stderr, "rank %d: %s\n", rank, text);
}
