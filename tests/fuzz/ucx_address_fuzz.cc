// SPDX-License-Identifier: Apache-2.0
// UCX addresses of other ranks: bytes that no worker has packed never get to UCX.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "transports/ucx/ucx_address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    if (pack_ucx_address(unpack_ucx_address(input, 1)) != input) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  if (!input.empty() && unpack_ucx_address(pack_ucx_address(input), 1) != input) std::abort();
  return 0;
}
