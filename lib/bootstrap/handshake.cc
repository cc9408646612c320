// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/handshake.h"

#include <fmt/format.h>

#include <cassert>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

constexpr std::string_view kMagic(
    "\x89"
    "ECHLN\r\n",
    kMagicBytes);

std::string padded(std::string_view text, std::size_t bytes) {
  std::string result(text.substr(0, bytes));
  result.resize(bytes, '\0');
  return result;
}

std::string unpadded(std::string_view field) { return one_line(field.substr(0, field.find('\0'))); }

std::string hello_proof(const Secret& secret, std::string_view challenge, std::string_view body) {
  return keyed_hash(secret, {"echelon hello", challenge, body});
}

std::string verdict_proof(const Secret& secret, std::string_view context, std::string_view body) {
  return keyed_hash(secret, {"echelon verdict", context, body});
}

std::string verdict_body(const Verdict& verdict) {
  return std::string(kMagic) + ByteWriter().u32(static_cast<std::uint32_t>(verdict.status)).take() +
         padded(verdict.text, kReasonBytes);
}

std::string together(std::string_view a, std::string_view b) {
  return std::string(a) + std::string(b);
}

}  // namespace

std::string Version::text() const {
  return fmt::format("echelon {}.{}.{} (protocol {})", library / 1000000, library / 1000 % 1000,
                     library % 1000, protocol);
}

std::string encode_challenge() { return std::string(kMagic) + random_nonce(); }

std::string encode_hello(const Secret& secret, std::string_view challenge, const Hello& hello) {
  assert(challenge.size() == kChallengeBytes);
  ByteWriter fields;
  fields.u32(hello.version.protocol).u32(hello.version.library);
  fields.u32(hello.size).u32(hello.rank).u32(hello.pid);
  const std::string body =
      std::string(kMagic) + fields.take() + padded(hello.host, kHostBytes) + random_nonce();
  return body + hello_proof(secret, challenge, body);
}

std::string encode_verdict(const Secret& secret, std::string_view challenge, std::string_view hello,
                           const Verdict& verdict) {
  const std::string body = verdict_body(verdict);
  return body + verdict_proof(secret, together(challenge, hello), body);
}

std::string encode_refusal() {
  return verdict_body({ECH_ERR_AUTH, ""}) + std::string(kProofBytes, '\0');
}

bool may_be_echelon(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kMagic.size());
  return head == kMagic.substr(0, head.size());
}

Hello decode_hello(const Secret& secret, std::string_view challenge, std::string_view hello) {
  const std::size_t body = kHelloBytes - kProofBytes;
  if (hello.size() != kHelloBytes ||
      !same_proof(hello.substr(body), hello_proof(secret, challenge, hello.substr(0, body))))
    throw Error(ECH_ERR_AUTH, "it does not know the job's secret");
  ByteReader reader(hello.substr(kMagicBytes), "hello");
  Hello result;
  result.version.protocol = reader.u32();
  result.version.library = reader.u32();
  result.size = reader.u32();
  result.rank = reader.u32();
  result.pid = reader.u32();
  result.host = unpadded(hello.substr(kMagicBytes + 5 * 4, kHostBytes));
  return result;
}

Verdict decode_verdict(const Secret& secret, std::string_view challenge, std::string_view hello,
                       std::string_view verdict) {
  const std::size_t body = kVerdictBytes - kProofBytes;
  const auto proof = [&] {
    return verdict_proof(secret, together(challenge, hello), verdict.substr(0, body));
  };
  if (verdict.size() != kVerdictBytes || !same_proof(verdict.substr(body), proof()))
    throw Error(ECH_ERR_AUTH, "rank 0 and this rank were given different secrets");
  ByteReader reader(verdict.substr(kMagicBytes), "verdict");
  Verdict result;
  result.status = static_cast<ech_status>(static_cast<std::int32_t>(reader.u32()));
  result.text = unpadded(verdict.substr(kMagicBytes + 4, kReasonBytes));
  return result;
}

SessionKeys session_keys(const Secret& secret, std::string_view challenge, std::string_view hello) {
  return {subkey(secret, {"echelon session, from root", challenge, hello}),
          subkey(secret, {"echelon session, to root", challenge, hello})};
}

}  // namespace echelon
