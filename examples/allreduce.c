/* SPDX-License-Identifier: Apache-2.0
 * The smallest complete program:  echelon run -n 4 -- ./allreduce */
#include <echelon/echelon.h>
#include <stdio.h>

int main(void) {
  ech_comm* comm;
  int rank, size;
  float mine[4], sum[4];
  if (ech_comm_create(&comm, NULL) != ECH_OK) { /* NULL: everything from the launcher */
    fprintf(stderr, "%s\n", ech_last_error());
    return 1;
  }
  ech_comm_rank(comm, &rank);
  ech_comm_size(comm, &size);
  for (int i = 0; i < 4; ++i) mine[i] = (float)(rank + i);
  if (ech_allreduce(mine, sum, 4, ECH_FLOAT32, ECH_SUM, comm) != ECH_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, ech_last_error());
    return 1;
  }
  printf("rank %d of %d: %g %g %g %g\n", rank, size, sum[0], sum[1], sum[2], sum[3]);
  return ech_comm_destroy(comm) == ECH_OK ? 0 : 1;
}
