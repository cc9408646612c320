// SPDX-License-Identifier: Apache-2.0
#include "lib/base/error.h"
#include "lib/bootstrap/pmix.h"

namespace echelon {

Pmix& connect_pmix() { throw Error(ECH_ERR_UNSUPPORTED, "this build of Echelon has no PMIx"); }

}  // namespace echelon
