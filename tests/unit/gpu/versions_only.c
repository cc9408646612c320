/* SPDX-License-Identifier: Apache-2.0
 * A library that tells the versions that it was compiled with and can do nothing else. */
int cuDriverGetVersion(int* version);
int ncclGetVersion(int* version);

int cuDriverGetVersion(int* version) {
  *version = CUDA;
  return 0;
}

int ncclGetVersion(int* version) {
  *version = NCCL;
  return 0;
}
