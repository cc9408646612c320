// SPDX-License-Identifier: Apache-2.0
// Copies between user memory and slots.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/reduce/kernels.h"

namespace echelon::shm {

// What memcpy may be given at a time. Where the processor announces a fast string instruction glibc
// takes it above 2 KiB or, with AVX-512, above 8. The last: all at once.
inline constexpr std::array<std::size_t, 3> kCopyPieces = {2048, 8192, SIZE_MAX};

// The one of them that is quickest. On AMD Zen 3 the string instruction runs at a fifth of the
// speed (10 instead of 50 GB/s) when the source begins on a page, as slots do, and the destination
// just after; on an Intel Xeon with AVX-512 at two thirds. On an EPYC with AVX-512 it is quicker
// than vector instructions from 64 KiB on; to what another core has read it may write without
// fetching it first. Measured at the first call in the process, in some 100 us, with copies of 64
// KiB. Thread-safe.
std::size_t copy_piece();

// The rule of it, by the time of the same copy in each of kCopyPieces.
std::size_t piece_by_time(const std::array<double, kCopyPieces.size()>& seconds);

inline void copy_in_pieces(std::byte* out, const std::byte* in, std::size_t bytes,
                           std::size_t piece) {
  for (std::size_t at = 0, some = 0; at < bytes; at += some) {
    some = std::min(piece, bytes - at);
    std::memcpy(out + at, in + at, some);
  }
}

inline void copy_block(std::byte* out, const std::byte* in, std::size_t bytes) {
  copy_in_pieces(out, in, bytes, bytes <= kCopyPieces[0] ? kCopyPieces[0] : copy_piece());
}

// Brings a result into user memory. `streaming`: past the cache, for it will not be read soon.
inline void deliver(std::byte* out, const std::byte* in, std::size_t bytes, bool streaming) {
  if (out == in) return;
  if (streaming)
    stream_copy(out, in, bytes);
  else
    copy_block(out, in, bytes);
}

}  // namespace echelon::shm
