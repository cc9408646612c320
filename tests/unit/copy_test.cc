// SPDX-License-Identifier: Apache-2.0
// Copies between user memory and slots.
#include "transports/shm/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace echelon::shm {
namespace {

TEST(Copy, IsWholeUnlessTheStringInstructionIsSlow) {
  EXPECT_EQ(piece_by_time({1e-6, 1e-6, 1e-6}), SIZE_MAX);
  EXPECT_EQ(piece_by_time({1e-6, 1e-6, 1.1e-6}), SIZE_MAX) << "no more than noise";
  EXPECT_EQ(piece_by_time({1e-6, 5e-6, 5e-6}), 2048u) << "it begins with 2 KiB";
  EXPECT_EQ(piece_by_time({1.1e-6, 1e-6, 1.5e-6}), 8192u) << "it begins with more";
}

TEST(Copy, IsMeasuredOnce) {
  const std::size_t piece = copy_piece();
  EXPECT_TRUE(std::ranges::find(kCopyPieces, piece) != kCopyPieces.end()) << piece;
  EXPECT_EQ(copy_piece(), piece);
}

TEST(Copy, BringsEveryByteAndNoOther) {
  for (const std::size_t piece : kCopyPieces)
    for (const std::size_t bytes : {0u, 1u, 63u, 2047u, 2048u, 2049u, 8193u, 100003u}) {
      std::vector<std::byte> from(bytes), to(bytes + 2, std::byte{0xee});
      for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
      if (piece == copy_piece())
        copy_block(to.data() + 1, from.data(), bytes);
      else
        copy_in_pieces(to.data() + 1, from.data(), bytes, piece);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + 1)) << bytes;
      EXPECT_EQ(to.front(), std::byte{0xee}) << bytes;
      EXPECT_EQ(to.back(), std::byte{0xee}) << bytes;
    }
}

}  // namespace
}  // namespace echelon::shm
