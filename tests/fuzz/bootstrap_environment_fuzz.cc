// SPDX-License-Identifier: Apache-2.0
// Environment variables of launchers: lines NAME=value. Whatever they hold gives an identity that
// makes sense, nothing, or ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/bootstrap/environment.h"
#include "tests/fuzz/variables.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  const fuzz::Variables lookup(data, size);
  try {
    const auto launch = read_environment(lookup);
    if (!launch) return 0;
    const Identity& identity = launch->identity;
    if (identity.rank < 0 || identity.rank >= identity.size) std::abort();
    if (!identity.host.empty() && identity.port == 0) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
