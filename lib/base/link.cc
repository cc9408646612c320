// SPDX-License-Identifier: Apache-2.0
#include "lib/base/link.h"

namespace echelon {

std::string_view name(LinkKind kind) {
  constexpr std::string_view kNames[] = {"self",       "shm",  "nvlink",   "pcie",
                                         "infiniband", "roce", "ethernet", "wan"};
  return kNames[static_cast<int>(kind)];
}

std::string_view name(Source source) {
  constexpr std::string_view kNames[] = {"file", "measured", "device", "default"};
  return kNames[static_cast<int>(source)];
}

}  // namespace echelon
