// SPDX-License-Identifier: Apache-2.0
// The three fixed-size messages by which a rank and rank 0 prove to each other that they know the
// job's secret:
//
//   rank 0 -> rank   Challenge   nonce of rank 0
//   rank -> rank 0   Hello       who the rank is, its nonce, proof over Challenge and Hello
//   rank 0 -> rank   Verdict     accepted or why not, proof over Challenge, Hello and Verdict
//
// A proof is a hash keyed with the secret. Both nonces are fresh, so no recorded message proves
// anything. Nothing is decoded before its proof holds. The layout of all three is the same in every
// version of Echelon, so that versions which differ can say so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "echelon/echelon.h"
#include "lib/bootstrap/auth.h"

namespace echelon {

// What must be equal on all ranks: the protocol, and the library, which chooses the plans.
struct Version {
  std::uint32_t protocol = 1;
  std::uint32_t library =
      ECH_VERSION_MAJOR * 1000000 + ECH_VERSION_MINOR * 1000 + ECH_VERSION_PATCH;

  bool operator==(const Version&) const = default;
  std::string text() const;  // "echelon 0.1.0 (protocol 1)"
};

struct Hello {
  Version version;
  std::uint32_t size = 0;
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  std::string host;  // cut to kHostBytes
};

struct Verdict {
  ech_status status = ECH_OK;
  std::string text;  // cut to kReasonBytes
};

inline constexpr std::size_t kMagicBytes = 8;
inline constexpr std::size_t kHostBytes = 64;
inline constexpr std::size_t kReasonBytes = 512;
inline constexpr std::size_t kChallengeBytes = kMagicBytes + kNonceBytes;
inline constexpr std::size_t kHelloBytes =
    kMagicBytes + 5 * 4 + kHostBytes + kNonceBytes + kProofBytes;
inline constexpr std::size_t kVerdictBytes = kMagicBytes + 4 + kReasonBytes + kProofBytes;

// Each returns exactly its number of bytes. `challenge` and `hello` are such bytes.
std::string encode_challenge();
std::string encode_hello(const Secret& secret, std::string_view challenge, const Hello& hello);
std::string encode_verdict(const Secret& secret, std::string_view challenge, std::string_view hello,
                           const Verdict& verdict);

// What rank 0 answers to a hello without proof: it fits no secret on purpose.
std::string encode_refusal();

// False as soon as `bytes` cannot be the beginning of an Echelon message.
bool may_be_echelon(std::string_view bytes);

// Throw ECH_ERR_AUTH when the proof does not hold.
Hello decode_hello(const Secret& secret, std::string_view challenge, std::string_view hello);
Verdict decode_verdict(const Secret& secret, std::string_view challenge, std::string_view hello,
                       std::string_view verdict);

// One key per direction for the frames that follow.
struct SessionKeys {
  Key from_root;
  Key to_root;
};
SessionKeys session_keys(const Secret& secret, std::string_view challenge, std::string_view hello);

}  // namespace echelon
