/* SPDX-License-Identifier: Apache-2.0
 * What the MPI programs of these tests share. They are ordinary MPI programs: that Echelon is there
 * they can only find out by the names that libechelon-mpi.so exports. */
#ifndef TESTS_MPI_RANK_H_
#define TESTS_MPI_RANK_H_

#include <mpi.h>
#include <stdint.h>

extern int rank, size; /* in MPI_COMM_WORLD, after begin() */

/* MPI_Init_thread, and the numbers above. */
void begin(int thread_level);

/* MPI_Finalize; the program's exit status: whether every expectation held. */
int end(void);

/* Notes a failure, with the rank, unless `good`. */
void expect(int good, const char* what, ...) __attribute__((format(printf, 2, 3)));

/* Whether an expectation did not hold. */
int failed(void);

/* Calls of `function` that Echelon has done and that MPI has. 0 where the library is not there. */
uint64_t served(const char* function);
uint64_t passed(const char* function);
uint64_t bytes_served(const char* function);

#endif
