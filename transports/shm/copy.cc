// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/copy.h"

#include <chrono>
#include <cstdint>
#include <vector>

#include "lib/base/time.h"

namespace echelon::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTried = std::size_t{64} << 10, kPage = 4096;
constexpr std::size_t kJustAfter = 16;  // where malloc puts what it maps
constexpr int kTimes = 4;               // the quickest counts
constexpr double kSlow = 1.5;

// Not inlined: nobody reads what is copied.
[[gnu::noinline]] double seconds_of_copy(std::byte* out, const std::byte* in, std::size_t piece) {
  const auto begin = Clock::now();
  copy_in_pieces(out, in, kTried, piece);
  return to_seconds(Clock::now() - begin);
}

std::byte* next_page(std::byte* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return data + (kPage - address % kPage) % kPage;
}

std::size_t measured_piece() {
  std::vector<std::byte> from(kTried + kPage), to(kTried + 2 * kPage);
  const std::byte* const in = next_page(from.data());
  std::byte* const out = next_page(to.data()) + kJustAfter;
  double whole = 1, pieces = 1;
  for (int i = 0; i < kTimes; ++i) {
    whole = std::min(whole, seconds_of_copy(out, in, kTried));
    pieces = std::min(pieces, seconds_of_copy(out, in, kVectorCopy));
  }
  return piece_by_time(whole, pieces);
}

}  // namespace

std::size_t piece_by_time(double whole_seconds, double pieces_seconds) {
  return whole_seconds > kSlow * pieces_seconds ? kVectorCopy : SIZE_MAX;
}

std::size_t copy_piece() {
  static const std::size_t piece = measured_piece();
  return piece;
}

}  // namespace echelon::shm
