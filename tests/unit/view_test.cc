// SPDX-License-Identifier: Apache-2.0
// Offsets of very large buffers.
#include "lib/engine/view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace echelon {
namespace {

constexpr std::uint64_t kTwo63 = std::uint64_t{1} << 63;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kGiB = std::size_t{1} << 30;

TEST(MulDiv, TheProductMayNeedMoreThan64Bits) {
  EXPECT_EQ(mul_div(kTwo63, 3, 3), kTwo63);
  EXPECT_EQ(mul_div(kTwo63 - 1, 6, 7), 7905747460161236406u);  // (2^63 - 1) / 7 * 6: it divides
  EXPECT_EQ(mul_div(kMost, kMost, kMost), kMost);
  EXPECT_EQ(mul_div(kMost, kMost - 1, kMost), kMost - 1);
}

TEST(MulDiv, RoundsDown) {
  EXPECT_EQ(mul_div(7, 2, 3), 4u);
  EXPECT_EQ(mul_div(kTwo63 + 1, 1, 2), kTwo63 / 2);
  EXPECT_EQ(mul_div(kTwo63, kTwo63 - 1, kTwo63), kTwo63 - 1);
  EXPECT_EQ(mul_div(0, kMost, 5), 0u);
}

constexpr std::size_t kBegin = 64;  // where the buffer would lie; not at null, which has no bytes

// Blocks of `elements` each, cut into three units.
View view_of(std::size_t elements, std::size_t element_size) {
  View view;
  view.block_units = 3;
  view.elements = elements;
  view.element_size = element_size;
  view.input = {reinterpret_cast<const std::byte*>(kBegin), elements * element_size};
  view.work = {reinterpret_cast<std::byte*>(kBegin), elements * element_size};
  return view;
}

std::size_t at(const View& view, Slice slice) {
  EXPECT_EQ(reinterpret_cast<std::size_t>(view.at_work(slice)),
            reinterpret_cast<std::size_t>(view.at(Place::kInput, slice)));
  return reinterpret_cast<std::size_t>(view.at_work(slice));
}

TEST(View, UnitsBeyond4GiB) {
  const std::size_t elements = 5 * kGiB + 1;  // 20 GiB and 4 bytes in each block
  const View view = view_of(elements, 4);
  EXPECT_EQ(at(view, {2, 3}), kBegin + (2 * elements / 3) * 4);
  EXPECT_EQ(at(view, {4, 5}), kBegin + (elements + elements / 3) * 4);
  EXPECT_EQ(view.bytes({0, 6}), 2 * elements * 4);
  EXPECT_EQ(view.bytes({0, 1}) + view.bytes({1, 2}) + view.bytes({2, 3}), elements * 4);
}

// Where elements x units no longer fits 64 bits.
TEST(View, UnitsOfTheLargestBuffer) {
  const std::size_t elements = kTwo63 - 1;  // bytes: as many as a buffer can have
  const View view = view_of(elements, 1);
  EXPECT_EQ(view.count({0, 3}), elements);
  EXPECT_EQ(at(view, {1, 2}), kBegin + elements / 3);
  EXPECT_EQ(at(view, {2, 3}), kBegin + 6148914691236517204u);  // 2 (2^63 - 1) / 3, rounded down
  EXPECT_EQ(view.count({0, 1}) + view.count({1, 2}) + view.count({2, 3}), elements);
}

TEST(View, SlicesMeetWithoutGaps) {
  for (std::size_t elements : {1ul, 2ul, 3ul, 4 * kGiB - 1, 4 * kGiB, 7 * kGiB + 5}) {
    const View view = view_of(elements, 8);
    for (Unit unit = 0; unit + 2 < 3; ++unit)
      EXPECT_EQ(at(view, {unit, unit + 1}) + view.bytes({unit, unit + 1}),
                at(view, {unit + 1, unit + 2}));
  }
}

}  // namespace
}  // namespace echelon
