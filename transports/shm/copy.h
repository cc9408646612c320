// SPDX-License-Identifier: Apache-2.0
// Copies between user memory and slots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/reduce/kernels.h"

namespace echelon::shm {

// What memcpy is given at a time, so that it does not use the string instruction: less than glibc's
// threshold.
inline constexpr std::size_t kVectorCopy = 2048;

// SIZE_MAX, or kVectorCopy where the string instruction is slow, which glibc takes for larger
// copies where the processor announces a fast one. On AMD Zen 3 it runs at a fifth of the speed (10
// instead of 50 GB/s) when the source begins on a page, as slots do, and the destination just
// after. On an EPYC with AVX-512 it is quicker than vector instructions from 64 KiB on; to what
// another core has read it may write without fetching it first. Measured at the first call in the
// process, in some 50 us, with copies of 64 KiB. Thread-safe.
std::size_t copy_piece();

// The rule of it, of copies of the same bytes in one piece and in pieces of kVectorCopy.
std::size_t piece_by_time(double whole_seconds, double pieces_seconds);

inline void copy_in_pieces(std::byte* out, const std::byte* in, std::size_t bytes,
                           std::size_t piece) {
  for (std::size_t at = 0, some = 0; at < bytes; at += some) {
    some = std::min(piece, bytes - at);
    std::memcpy(out + at, in + at, some);
  }
}

inline void copy_block(std::byte* out, const std::byte* in, std::size_t bytes) {
  copy_in_pieces(out, in, bytes, bytes <= kVectorCopy ? kVectorCopy : copy_piece());
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
