// SPDX-License-Identifier: Apache-2.0
// Fabric files, TOML or JSON: any bytes give a fabric, which dumps and reads back, or an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  Fabric fabric;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    fabric = expand(parse_fabric_file(text, "input"));
  } catch (const Error&) {
    return 0;
  }
  if (fabric.hosts.size() > 64) return 0;
  (void)to_text(fabric);
  // Names with wildcards or brackets mean more than themselves: only then may a dump differ.
  const std::string dump = to_toml(fabric);
  try {
    (void)expand(parse_fabric_file(dump, "dump"));
  } catch (const Error&) {
  }
  return 0;
}
