// SPDX-License-Identifier: Apache-2.0
#include "lib/base/error.h"

namespace echelon {

const char* name(ech_status status) {
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

}  // namespace echelon
