// SPDX-License-Identifier: Apache-2.0
// Topologies as lstopo writes them: any bytes give a host, which can be shown, or an Error, also
// where hwloc itself does not survive them.
#include <cstdint>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  try {
    Fabric fabric;
    fabric.hosts.push_back(parse_hwloc_xml({reinterpret_cast<const char*>(data), size}, "input"));
    fabric.hosts[0].name = "host";
    (void)to_text(fabric);
    (void)expand(parse_fabric_file(to_json(fabric), "dump"));
  } catch (const Error&) {
  }
  return 0;
}
