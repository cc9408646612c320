// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/failure.h"

#include "lib/base/bytes.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

constexpr std::chrono::milliseconds kFarewell{100};  // for the reason to arrive

}  // namespace

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

bool may_be_a_consequence(const Error& error) {
  return error.code() == ECH_ERR_PEER &&
         std::string_view(error.what()).find(kWithoutGoodbye) != std::string_view::npos;
}

void tell_all(const Channels& channels, const Error& error) noexcept {
  try {
    const std::string payload = encode_failure(error);
    const Deadline limit = Deadline::clock::now() + kFarewell;
    for (const auto& channel : channels) {
      if (!channel) continue;
      channel->send_instead(FrameType::kFailure, payload);
      do channel->flush();
      while (channel->unsent() && Deadline::clock::now() < limit);
    }
  } catch (const std::exception&) {
    // Out of memory: they see the connection close.
  }
}

}  // namespace echelon
