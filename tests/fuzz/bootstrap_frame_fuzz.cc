// SPDX-License-Identifier: Apache-2.0
// Frames from the network. The input's first byte says how: bytes as they are; or a stream of real
// frames cut at odd places with one byte changed, of which no message may come out that was not
// sent, in order.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "lib/base/error.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/frame.h"

namespace {

using namespace echelon;

const Key kKey = derived_secret("fuzz");

void raw_bytes(std::string_view input) {
  FrameDecoder decoder(kKey);
  decoder.feed(input);
  if (decoder.next()) std::abort();  // a proof was guessed
}

void changed_stream(std::string_view input) {
  FrameEncoder encoder(kKey);
  std::string stream;
  std::vector<std::string> sent;
  const std::size_t where = static_cast<unsigned char>(input[0]) * 3u;
  const char change = input[1];
  const std::size_t cut = 1 + static_cast<unsigned char>(input[2]);
  input.remove_prefix(3);
  while (!input.empty()) {
    sent.emplace_back(input.substr(0, 1 + static_cast<unsigned char>(input[0]) % 50));
    input.remove_prefix(sent.back().size());
    encoder.append(FrameType::kGather, sent.back(), true, stream);
  }
  if (where < stream.size()) stream[where] = static_cast<char>(stream[where] ^ change);
  FrameDecoder decoder(kKey);
  std::size_t received = 0;
  for (std::size_t at = 0; at < stream.size(); at += cut) {
    decoder.feed(std::string_view(stream).substr(at, cut));
    while (const auto message = decoder.next())
      if (message->payload != sent.at(received++)) std::abort();
  }
  if (change == 0 && received != sent.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    if (size > 4 && input[0] % 2 == 1)
      changed_stream(input.substr(1));
    else
      raw_bytes(input);
  } catch (const Error&) {
  }
  try {
    const Error failure = decode_failure(std::string(input));
    if (std::string_view(failure.what()).find('\n') != std::string_view::npos) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
