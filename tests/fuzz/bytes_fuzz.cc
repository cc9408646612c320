// SPDX-License-Identifier: Apache-2.0
// ByteReader on any bytes: values or an Error, never anything else. The first byte of each round
// chooses what is read; what was read is written again and must give the same bytes.
#include <cstdlib>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

void read_one(ByteReader& reader, ByteWriter& copy) {
  const std::uint8_t kind = reader.u8();
  copy.u8(kind);
  switch (kind % 5) {
    case 0:
      copy.u8(reader.u8());
      break;
    case 1:
      copy.u32(reader.u32());
      break;
    case 2:
      copy.u64(reader.u64());
      break;
    case 3:
      copy.f64(reader.f64());
      break;
    default:
      copy.text(reader.text());
      break;
  }
}

void round_trip(std::string_view input) {
  ByteReader reader(input, "fuzz input");
  ByteWriter copy;
  while (!reader.at_end()) read_one(reader, copy);
  reader.expect_end();
  if (copy.take() != input) std::abort();
}

}  // namespace
}  // namespace echelon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    echelon::round_trip({reinterpret_cast<const char*>(data), size});
  } catch (const echelon::Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
