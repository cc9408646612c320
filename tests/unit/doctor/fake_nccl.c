/* SPDX-License-Identifier: Apache-2.0
 * A libnccl.so.2 for the doctor to find. */
int ncclGetVersion(int* version);

int ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
