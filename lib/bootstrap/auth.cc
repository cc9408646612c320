// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/auth.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "lib/base/error.h"

namespace echelon {
namespace {

void start_sodium() {
  static const int started = sodium_init();
  if (started < 0) throw Error(ECH_ERR_SYSTEM, "libsodium cannot find a source of random bytes");
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Secret random_secret() {
  start_sodium();
  Secret secret;
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

std::string random_nonce() {
  start_sodium();
  std::string nonce(kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Secret derived_secret(std::string_view text) {
  return subkey(Key{}, {"echelon derived secret", text});
}

Secret parse_secret(std::string_view hex, std::string_view what) {
  Secret secret;
  std::size_t length = 0;
  const int bad = sodium_hex2bin(secret.data(), secret.size(), hex.data(), hex.size(), nullptr,
                                 &length, nullptr);
  if (bad != 0 || length != secret.size() || hex.size() != 2 * secret.size())
    throw invalid(fmt::format("{} must be {} hexadecimal digits, it has {} characters", what,
                              2 * secret.size(), hex.size()));
  return secret;
}

std::string hex(const Secret& secret) {
  std::string text(2 * secret.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), secret.data(), secret.size());
  text.pop_back();
  return text;
}

std::string keyed_hash(const Key& key, std::initializer_list<std::string_view> parts,
                       std::size_t bytes) {
  start_sodium();
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), bytes);
  for (std::string_view part : parts)
    crypto_generichash_update(&state, bytes_of(part), part.size());
  std::string hash(bytes, '\0');
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(hash.data()), hash.size());
  return hash;
}

Key subkey(const Key& key, std::initializer_list<std::string_view> parts) {
  Key result;
  const std::string hash = keyed_hash(key, parts, result.size());
  std::copy(hash.begin(), hash.end(), result.begin());
  return result;
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace echelon
