// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/pinned_pool.h"

#include <algorithm>
#include <bit>

namespace echelon {
namespace {

constexpr std::size_t kSmallest = 64 << 10;

}  // namespace

PinnedPool::Piece PinnedPool::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  std::vector<PinnedBytes>& fitting = free_[size];
  if (fitting.empty()) return {allocate_pinned(device_, size), size};
  Piece piece{std::move(fitting.back()), size};
  fitting.pop_back();
  return piece;
}

void PinnedPool::give_back(Piece piece) { free_[piece.bytes].push_back(std::move(piece.memory)); }

}  // namespace echelon
