// SPDX-License-Identifier: Apache-2.0
// What the ranks of a host tell each other of their shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace echelon::shm {

struct Address {
  std::string host;
  std::uint64_t pid_namespace = 0;
  std::uint64_t net_namespace = 0;  // that of the wake-up sockets
  std::uint32_t pid = 0;
  std::uint32_t fd = 0;
  std::uint64_t nonce = 0;
  std::uint64_t header = 0;  // of the segment in its owner's address space

  std::string pack() const;
  // Throws ECH_ERR_INVALID for bytes that no rank sends.
  static Address parse(std::string_view bytes);
};

}  // namespace echelon::shm
