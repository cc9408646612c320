// SPDX-License-Identifier: Apache-2.0
// Descriptions of virtual clusters: any text gives a cluster within the limits, whose fabric file
// can be read, or ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "tools/cluster/spec.h"
#include "tools/run_emulate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  cluster::Spec spec;
  try {
    spec = cluster::parse_spec({reinterpret_cast<const char*>(data), size});
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
    return 0;
  }
  if (spec.hosts.empty() || spec.hosts.size() > 250 || spec.nics < 1) std::abort();
  for (const cluster::HostSpec& host : spec.hosts)
    if (host.ranks < 1 || host.rack < 0 || host.rack >= spec.racks) std::abort();
  if (spec.hosts.size() > 16) return 0;
  const Fabric fabric = expand(parse_fabric_file(run::fabric_toml(spec), "input"));
  if (spec.nic_bits > 0 && fabric.hosts.size() != spec.hosts.size()) std::abort();
  return 0;
}
