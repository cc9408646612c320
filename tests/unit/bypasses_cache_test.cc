// SPDX-License-Identifier: Apache-2.0
// Which operations leave their results past the cache: those that do not fit in it.
#include <gtest/gtest.h>

#include "transports/shm/choose.h"

namespace echelon::shm {
namespace {

constexpr auto kSum = GroupAction::kAllreduce, kParts = GroupAction::kReduceScatter,
               kAll = GroupAction::kAllgather;
constexpr Thresholds kSmallCache{.caches = 8 << 20};
constexpr std::size_t kKiB = 1 << 10;

// One call, of buffers that have 1/8 of so many KiB.
bool streams(GroupAction action, int members, std::size_t bytes, std::size_t eighths) {
  return bypasses_cache({action, members, bytes * kKiB, eighths * bytes * kKiB / 8}, kSmallCache);
}

TEST(BypassesCache, CountsTheBuffersOfTwo) {
  EXPECT_FALSE(streams(kSum, 2, 2 << 10, 16)) << "8 MiB fit";
  EXPECT_TRUE(streams(kSum, 2, 4 << 10, 16));
}

TEST(BypassesCache, CountsABufferThatIsBothOnce) {
  EXPECT_FALSE(streams(kSum, 2, 4 << 10, 8));
  EXPECT_TRUE(streams(kSum, 2, 8 << 10, 8));
}

TEST(BypassesCache, CountsTheSlotsOfMore) {
  EXPECT_FALSE(streams(kSum, 4, 512, 16));
  EXPECT_TRUE(streams(kSum, 4, 1 << 10, 16));
  EXPECT_FALSE(streams(kSum, 8, 256, 16));
  EXPECT_TRUE(streams(kSum, 8, 512, 16));
}

TEST(BypassesCache, CountsWhatEachMemberHas) {
  EXPECT_FALSE(streams(kAll, 2, 2 << 10, 12));
  EXPECT_TRUE(streams(kAll, 2, 4 << 10, 12));
  EXPECT_FALSE(streams(kAll, 8, 512, 9));
  EXPECT_TRUE(streams(kAll, 8, 1 << 10, 9));
  EXPECT_FALSE(streams(kParts, 8, 512, 9)) << "parts of one result";
  EXPECT_TRUE(streams(kParts, 8, 1 << 10, 9));
}

TEST(BypassesCache, CountsTheOperationOfSmallCalls) {
  const auto streams_calls = [](std::size_t operation) {
    return bypasses_cache({kAll, 2, 128 * kKiB, 2 * operation * kKiB, 8}, kSmallCache);
  };
  EXPECT_FALSE(streams_calls(1 << 10)) << "4 MiB of buffers and 2 of slots";
  EXPECT_TRUE(streams_calls(2 << 10));
}

TEST(BypassesCache, FromEightMebibytesWhereNothingIsKnown) {
  const auto streams_unknown = [](std::size_t bytes) {
    return bypasses_cache({kSum, 8, bytes, 2 * bytes}, {});
  };
  EXPECT_FALSE(streams_unknown((8 << 20) - 4));
  EXPECT_TRUE(streams_unknown(8 << 20));
}

// Virtual machines may be told of caches that they share with others.
TEST(MayBypassCache, FromEightMebibytesWhateverCachesClaim) {
  constexpr Thresholds kClaims{.caches = std::size_t{480} << 20};
  const Extent large{kSum, 2, 8 << 20, 16 << 20}, less{kSum, 2, 7 << 20, 14 << 20};
  EXPECT_EQ(as_allreduce(large), 8u << 20);
  EXPECT_FALSE(bypasses_cache(large, kClaims));
  EXPECT_TRUE(may_bypass_cache(large, kClaims));
  EXPECT_FALSE(may_bypass_cache(less, kClaims));
  EXPECT_TRUE(may_bypass_cache(less, kSmallCache)) << "which it does not fit in";
}

}  // namespace
}  // namespace echelon::shm
