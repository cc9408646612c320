// SPDX-License-Identifier: Apache-2.0
// What Linux says under /sys (see tree.h). Whatever it holds gives a host that can be shown and
// sent.
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "tests/fuzz/tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  static fuzz::Tree tree;
  tree.fill({reinterpret_cast<const char*>(data), size});
  Fabric fabric;
  fabric.hosts.resize(1);
  Host& host = fabric.hosts[0];
  host.name = "host";
  load_sysfs_cpus(host, tree.root());
  load_sysfs(host, tree.root());
  (void)to_text(fabric);
  host = host_from_wire(to_wire(host));
  const std::vector<RankPlace> places(2);
  if (!validate(make_layout(fabric, places)).empty()) std::abort();
  return 0;
}
