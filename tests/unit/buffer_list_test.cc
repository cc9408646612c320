// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/buffer_list.h"

#include <gtest/gtest.h>

#include <limits>

namespace echelon {
namespace {

using Part = BufferList::Part;

constexpr std::size_t kElement = 4;

class Lists : public testing::Test {
 protected:
  Part at(std::size_t in, std::size_t out, std::size_t count) {
    return {memory + in * kElement, memory + out * kElement, count};
  }
  std::vector<std::size_t> parts(const BufferList& list, std::size_t begin, std::size_t end) {
    std::vector<std::size_t> counts;
    list.each(begin, end, [&](const Part& part) { counts.push_back(part.count); });
    return counts;
  }

  std::byte memory[1000 * kElement];
};

TEST_F(Lists, AreCutIntoParts) {
  BufferList list(kElement, {}, true);
  list.add(at(500, 600, 10));
  list.add({nullptr, nullptr, 0});
  list.add(at(0, 100, 5));
  list.add(at(700, 800, 20));
  EXPECT_EQ(list.count(), 35u);
  EXPECT_EQ(list.buffers(), 4u);
  EXPECT_EQ(parts(list, 0, 35), (std::vector<std::size_t>{10, 5, 20}));
  EXPECT_EQ(parts(list, 3, 12), (std::vector<std::size_t>{7, 2}));
  EXPECT_EQ(parts(list, 10, 15), (std::vector<std::size_t>{5}));
  EXPECT_EQ(parts(list, 15, 16), (std::vector<std::size_t>{1}));
  const Part part = list.part(12, 35);
  EXPECT_EQ(part.input, memory + 2 * kElement);
  EXPECT_EQ(part.output, memory + 102 * kElement);
  EXPECT_EQ(part.count, 3u);
}

TEST_F(Lists, JoinWhatIsAdjacentOnBothSides) {
  for (bool joins : {true, false}) {
    BufferList list(kElement, {}, joins);
    list.add(at(0, 500, 10));
    list.add({nullptr, nullptr, 0});
    list.add(at(10, 510, 7));
    list.add(at(17, 518, 1));   // the output is not
    list.add(at(100, 519, 1));  // the input is not
    EXPECT_EQ(parts(list, 0, 19), joins ? (std::vector<std::size_t>{17, 1, 1})
                                        : (std::vector<std::size_t>{10, 7, 1, 1}));
  }
}

// Adjacent or not: ranks have to take the same way.
TEST_F(Lists, ArePlainByTheirCountsAndFactorsAlone) {
  const auto is_plain = [&](BufferList::Factors factors, std::vector<Part> buffers) {
    BufferList list(kElement, factors, true);
    for (const Part& buffer : buffers) list.add(buffer);
    return list.is_plain();
  };
  const Part none = {nullptr, nullptr, 0}, one = at(0, 0, 5), next = at(5, 5, 5);
  EXPECT_TRUE(is_plain({}, {}));
  EXPECT_TRUE(is_plain({}, {none, one, none}));
  EXPECT_FALSE(is_plain({}, {one, next}));
  EXPECT_FALSE(is_plain({0.5, 1}, {one}));
  EXPECT_FALSE(is_plain({1, 0.5}, {one}));
}

TEST_F(Lists, DigestsTellCountsAndFactorsApart) {
  const auto digest = [&](std::vector<std::size_t> counts, BufferList::Factors factors = {}) {
    BufferList list(kElement, factors, true);
    for (std::size_t count : counts) list.add(at(0, 0, count));
    return list.digest();
  };
  EXPECT_EQ(digest({1, 2}), digest({1, 2}));
  EXPECT_NE(digest({1, 2}), digest({2, 1}));
  EXPECT_NE(digest({3}), digest({3, 0}));
  EXPECT_NE(digest({0, 3}), digest({3, 0}));
  EXPECT_NE(digest({3}, {1, 2}), digest({3}, {2, 1}));
  BufferList moved(kElement, {}, false);
  moved.add(at(7, 70, 1));
  moved.add(at(90, 9, 2));
  EXPECT_EQ(moved.digest(), digest({1, 2})) << "where they lie is each rank's own affair";
}

TEST_F(Lists, NumbersOfBuffersHaveAnEnd) {
  BufferList list(kElement, {}, true);
  for (int k = 0; k < 70'000; ++k) list.add({nullptr, nullptr, 0});
  EXPECT_EQ(list.buffers(), std::numeric_limits<std::uint16_t>::max());
  EXPECT_EQ(list.count(), 0u);
}

}  // namespace
}  // namespace echelon
