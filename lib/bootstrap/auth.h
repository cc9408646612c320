// SPDX-License-Identifier: Apache-2.0
// The job's secret and what is made from it: keyed hashes (BLAKE2b), nonces, session keys.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

namespace echelon {

using Key = std::array<unsigned char, 32>;
using Secret = Key;

inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kNonceBytes = 32;

Secret random_secret();
std::string random_nonce();

// A secret that everyone who knows `text` can compute: tells jobs apart, protects nothing.
Secret derived_secret(std::string_view text);

// 64 hexadecimal digits. Throws ECH_ERR_INVALID naming `what`, without repeating the value.
Secret parse_secret(std::string_view hex, std::string_view what);
std::string hex(const Secret& secret);

// The hash of the parts one after the other; `bytes` from 16 to 64.
std::string keyed_hash(const Key& key, std::initializer_list<std::string_view> parts,
                       std::size_t bytes = kProofBytes);
Key subkey(const Key& key, std::initializer_list<std::string_view> parts);

// Takes the same time wherever they differ.
bool same_proof(std::string_view a, std::string_view b);

}  // namespace echelon
