// SPDX-License-Identifier: Apache-2.0
// The only file with extern "C" and the only file that catches everything.
#include "echelon/echelon.h"

void ech_version(int* major, int* minor, int* patch) {
  if (major != nullptr) *major = ECH_VERSION_MAJOR;
  if (minor != nullptr) *minor = ECH_VERSION_MINOR;
  if (patch != nullptr) *patch = ECH_VERSION_PATCH;
}

const char* ech_status_name(ech_status status) {
  switch (status) {
    case ECH_OK:
      return "ok";
    case ECH_ERR_INVALID:
      return "invalid argument";
    case ECH_ERR_UNSUPPORTED:
      return "unsupported";
    case ECH_ERR_NO_MEMORY:
      return "out of memory";
    case ECH_ERR_MISMATCH:
      return "mismatch";
    case ECH_ERR_TIMEOUT:
      return "timeout";
    case ECH_ERR_PEER:
      return "peer failed";
    case ECH_ERR_ABORTED:
      return "aborted";
    case ECH_ERR_AUTH:
      return "not authenticated";
    case ECH_ERR_SYSTEM:
      return "system error";
    case ECH_ERR_INTERNAL:
      return "internal error";
  }
  return "unknown status";
}
