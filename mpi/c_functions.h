/* SPDX-License-Identifier: Apache-2.0
 * What libechelon-mpi.so exports besides functions of MPI: how many calls of one of them, such as
 * "MPI_Allreduce", Echelon has done in this process, with how many bytes, and how many MPI. 0 for
 * other names. Thread-safe. */
#pragma once

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t echelon_mpi_served(const char* function);
uint64_t echelon_mpi_bytes(const char* function);
uint64_t echelon_mpi_passed(const char* function);

#ifdef __cplusplus
}
#endif
