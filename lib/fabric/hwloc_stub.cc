// SPDX-License-Identifier: Apache-2.0
// Instead of hwloc_loader.cc in builds without hwloc.
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/fabric/loaders.h"

namespace echelon {

void load_hwloc(Host& host) { load_sysfs_cpus(host, "/sys"); }

std::string hwloc_version() { return {}; }

Host parse_hwloc_xml(std::string_view, std::string_view name) {
  throw Error(ECH_ERR_UNSUPPORTED,
              fmt::format("{}: hwloc xml, but this build has no hwloc; expected nccl xml", name));
}

}  // namespace echelon
