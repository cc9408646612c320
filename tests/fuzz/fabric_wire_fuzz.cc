// SPDX-License-Identifier: Apache-2.0
// What a rank says of its host: any bytes give a host, which survives the wire again, or an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  Host host;
  try {
    host = host_from_wire({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  Fabric fabric;
  fabric.hosts = {host};
  (void)to_text(fabric);
  const std::vector<RankPlace> places(2);
  if (!validate(make_layout(fabric, places)).empty()) std::abort();
  (void)nics_of_rank(fabric, places, 1);
  return 0;
}
