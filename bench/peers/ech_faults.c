/* SPDX-License-Identifier: Apache-2.0
 * bench/faults with Echelon, under `echelon run`. */
#include "echelon/echelon.h"
#include "fault.h"

static ech_comm* comm;

static int step(int count, float* data, char* text, size_t room) {
  ech_status status = ech_allreduce(data, data, (size_t)count, ECH_FLOAT32, ECH_SUM, comm);
  if (status != ECH_OK) snprintf(text, room, "%s", ech_last_error());
  return status != ECH_OK;
}

int main(int argc, char** argv) {
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  int size = 0;
  if (ech_comm_create(&comm, &options) != ECH_OK || ech_comm_size(comm, &size) != ECH_OK) {
    fprintf(stderr, "%s\n", ech_last_error());
    return 1;
  }
  fault_run(argc, argv, size, step);
  return 0;
}
