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
constexpr double kSlow = 1.2;           // more than noise

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

double least_seconds_of_copy(std::byte* out, const std::byte* in, std::size_t piece) {
  double least = 1;
  for (int i = 0; i < kTimes; ++i) least = std::min(least, seconds_of_copy(out, in, piece));
  return least;
}

// Each to memory of its own: the string instruction may leave it where it was, in the second-level
// cache or beyond, and is slower beyond, while vector instructions fetch it.
std::size_t measured_piece() {
  constexpr std::size_t kSpace = kTried + 2 * kPage;
  std::vector<std::byte> from(kTried + kPage), to(kCopyPieces.size() * kSpace);
  const std::byte* const in = next_page(from.data());
  std::array<double, kCopyPieces.size()> seconds;
  for (std::size_t p = 0; p < seconds.size(); ++p) {
    std::byte* const out = next_page(to.data() + p * kSpace) + kJustAfter;
    seconds[p] = least_seconds_of_copy(out, in, kCopyPieces[p]);
  }
  return piece_by_time(seconds);
}

}  // namespace

std::size_t piece_by_time(const std::array<double, kCopyPieces.size()>& seconds) {
  const auto least = std::ranges::min_element(seconds);
  if (seconds.back() <= kSlow * *least) return kCopyPieces.back();
  return kCopyPieces[least - seconds.begin()];
}

std::size_t copy_piece() {
  static const std::size_t piece = measured_piece();
  return piece;
}

}  // namespace echelon::shm
