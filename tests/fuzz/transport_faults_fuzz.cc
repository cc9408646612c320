// SPDX-License-Identifier: Apache-2.0
// Scripts of the transport that misbehaves: any text gives faults that a transport can act on, or
// ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "transports/faulty/faulty.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  try {
    for (const Fault& fault : parse_faults({reinterpret_cast<const char*>(data), size})) {
      if (fault.peer < -1 || fault.delay.count() < 0) std::abort();
      if (fault.kind != FaultKind::kDelay && fault.delay.count() != 0) std::abort();
    }
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
