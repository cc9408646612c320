/* SPDX-License-Identifier: Apache-2.0
 * The ABI as a C program sees it. */
#include <stdio.h>
#include <string.h>

#include "echelon/echelon.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

int main(void) {
  int major = -1, minor = -1, patch = -1;
  ech_version(&major, &minor, &patch);
  CHECK(major == ECH_VERSION_MAJOR && minor == ECH_VERSION_MINOR && patch == ECH_VERSION_PATCH);
  ech_version(NULL, NULL, NULL);
  CHECK(strcmp(ech_status_name(ECH_OK), "ok") == 0);
  CHECK(strcmp(ech_status_name((ech_status)12345), "unknown status") == 0);
  return 0;
}
