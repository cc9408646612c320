// SPDX-License-Identifier: Apache-2.0
// What the rsh agent of a virtual cluster asks for: any bytes give a request that reads back the
// same, or ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "tools/run_shell.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    if (run::encode(run::decode_shell_request(input)) != input) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
