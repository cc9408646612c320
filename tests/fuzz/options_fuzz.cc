// SPDX-License-Identifier: Apache-2.0
// Values of the library's own variables: lines NAME=value. They give options within their ranges or
// ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/options.h"
#include "tests/fuzz/variables.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  const fuzz::Variables lookup(data, size);
  try {
    const Options options = read_options(lookup);
    if (!(options.timeout > 0 && options.timeout <= 1e9)) std::abort();
    if (!(options.spin >= 0 && options.spin <= 1e9)) std::abort();
    if (options.log_level < ECH_LOG_ERROR || options.log_level > ECH_LOG_DEBUG) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
