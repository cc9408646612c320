// SPDX-License-Identifier: Apache-2.0
// The bytes that rank 0 and the ranks read before they trust each other, and a unique id.
#include <cstdint>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/bootstrap/handshake.h"
#include "lib/bootstrap/unique_id.h"

namespace {

using namespace echelon;

template <typename Decode>
void must_refuse(const Decode& decode) {
  try {
    decode();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_AUTH) std::abort();
    return;
  }
  std::abort();  // a proof was guessed
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Secret secret = random_secret();
  static const std::string challenge = encode_challenge();
  static const std::string hello = encode_hello(secret, challenge, {{}, 2, 1, 1, "host"});
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  may_be_echelon(input);
  std::string exact(input.substr(0, kVerdictBytes));
  must_refuse([&] { decode_hello(secret, challenge, input); });
  exact.resize(kHelloBytes);
  must_refuse([&] { decode_hello(secret, challenge, exact); });
  exact.resize(kVerdictBytes);
  must_refuse([&] { decode_verdict(secret, challenge, hello, exact); });
  try {
    ech_unique_id id{};
    input.copy(id.bytes, sizeof id.bytes);
    decode(id);
  } catch (const Error&) {
  }
  return 0;
}
