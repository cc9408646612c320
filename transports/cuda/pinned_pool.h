// SPDX-License-Identifier: Apache-2.0
// Pinned host memory in pieces, kept for the next use: pinning takes milliseconds.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "transports/cuda/device.h"

namespace echelon {

class PinnedPool {
 public:
  struct Piece {
    PinnedBytes memory;
    std::size_t bytes = 0;  // at least what was asked for
  };

  // `device` outlives this and every piece.
  explicit PinnedPool(const DeviceContext& device) : device_(device) {}

  // Throws ECH_ERR_NO_MEMORY.
  Piece take(std::size_t bytes);
  void give_back(Piece piece);

 private:
  const DeviceContext& device_;
  std::map<std::size_t, std::vector<PinnedBytes>> free_;  // by size, a power of two
};

}  // namespace echelon
