// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_address.h"

#include <fmt/format.h>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

// FNV-1a.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t sum = 0xcbf2'9ce4'8422'2325;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return sum;
}

}  // namespace

std::string pack_ucx_address(std::string_view address) {
  return ByteWriter().text(address).u64(checksum(address)).take();
}

std::string unpack_ucx_address(std::string_view packed, int rank) {
  const std::string what = fmt::format("ucx: address of rank {}", rank);
  ByteReader reader(packed, what);
  std::string address = reader.text();
  const std::uint64_t sum = reader.u64();
  reader.expect_end();
  if (address.empty() || sum != checksum(address))
    throw invalid(what + " is none, or not as it was sent");
  return address;
}

}  // namespace echelon
