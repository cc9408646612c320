// SPDX-License-Identifier: Apache-2.0
// In place of the others in a build without UCX.
#include "transports/ucx/ucx.h"

namespace echelon {

bool ucx_available() { return false; }

std::vector<UcxResource> ucx_resources() { return {}; }

UcxVersions ucx_versions() { return {}; }

std::unique_ptr<Medium> open_ucx(const UcxConfig&) {
  throw Error(ECH_ERR_UNSUPPORTED, "ucx: this build has no UCX; configure with -Ducx=enabled");
}

}  // namespace echelon
