// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/failure.h"

#include "lib/base/bytes.h"
#include "lib/bootstrap/text.h"

namespace echelon {

std::string encode_failure(const Error& error) {
  constexpr std::size_t kMostText = 2000;
  return ByteWriter()
      .u32(static_cast<std::uint32_t>(error.code()))
      .text(std::string_view(error.what()).substr(0, kMostText))
      .take();
}

Error decode_failure(const std::string& payload) {
  ByteReader reader(payload, "failure message");
  const auto code = static_cast<std::int32_t>(reader.u32());
  const std::string text = one_line(reader.text());
  const bool known = code < 0 && code >= ECH_ERR_INTERNAL;
  return {known ? static_cast<ech_status>(code) : ECH_ERR_INTERNAL, text};
}

}  // namespace echelon
