// SPDX-License-Identifier: Apache-2.0
// Unique ids, as bytes that came by any channel. An odd first byte: the rest is what an id says,
// and gets a checksum that fits.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "lib/base/error.h"
#include "lib/bootstrap/unique_id.h"

namespace {

using namespace echelon;

constexpr std::size_t kMagicBytes = 8, kChecksumBytes = 16;

ech_unique_id id_of(std::string_view bytes) {
  ech_unique_id id{};
  std::memcpy(id.bytes, bytes.data(), std::min(bytes.size(), sizeof id.bytes));
  return id;
}

ech_unique_id signed_id(std::string_view said) {
  const ech_unique_id genuine = encode({*parse_address("10.0.0.1"), random_secret()});
  constexpr std::size_t kMost = sizeof genuine.bytes - kMagicBytes - kChecksumBytes;
  std::string bytes(genuine.bytes, kMagicBytes);
  bytes += said.substr(0, kMost);
  return id_of(bytes + keyed_hash(Key{}, {bytes}, kChecksumBytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const UniqueId id = decode(data[0] % 2 == 1 ? signed_id(input) : id_of(input));
    if (id.root.port() == 0 || id.root.host() == "unknown") std::abort();
    if (decode(encode(id)).root.text() != id.root.text()) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
