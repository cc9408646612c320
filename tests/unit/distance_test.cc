// SPDX-License-Identifier: Apache-2.0
// How far the other ranks of a host are taken to be.
#include "transports/shm/distance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "transports/shm/segment.h"

namespace echelon::shm {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kNear{300}, kFar{1300}, kMemory{500};

void note(Distance& distance, nanoseconds cached, int times = 1) {
  for (int i = 0; i < times; ++i) distance.note({cached, kMemory});
}

TEST(Distance, IsFarWhenAThirdComesFromFar) {
  Distance distance(0, 4);
  EXPECT_FALSE(distance.far());
  note(distance, kFar, 3);
  EXPECT_FALSE(distance.far()) << "too few to tell";
  note(distance, kFar);
  EXPECT_TRUE(distance.far());
  note(distance, kNear, 8);
  EXPECT_TRUE(distance.far()) << "4 of 12";
  note(distance, kNear);
  EXPECT_FALSE(distance.far()) << "4 of 13";
}

TEST(Distance, ForgetsWhatWasLongAgo) {
  Distance distance(0, 2);
  note(distance, kNear, 100);
  note(distance, kFar, 5);
  EXPECT_FALSE(distance.far()) << "5 of 16";
  note(distance, kFar);
  EXPECT_TRUE(distance.far()) << "6 of 16";
  note(distance, kFar, 100);
  note(distance, kNear, 10);
  EXPECT_TRUE(distance.far()) << "6 of 16";
  note(distance, kNear);
  EXPECT_FALSE(distance.far()) << "5 of 16";
}

// It is compared with memory at its quickest: both are slow where others are busy.
TEST(Distance, IsNotFarWhereMemoryIsAsSlow) {
  Distance distance(0, 2);
  for (int i = 0; i < 16; ++i) distance.note({4 * kNear, 4 * kMemory});
  EXPECT_FALSE(distance.far());
  distance.note({kNear, kMemory});
  EXPECT_TRUE(distance.far()) << "memory is quicker than that";
}

TEST(Distance, AloneThereIsNobodyToBeFar) {
  Distance distance(0, 1);
  EXPECT_FALSE(distance.due());
  EXPECT_FALSE(distance.far());
}

// Who has written a probe has it in its cache: no probe is nearer.
TEST(Distance, OwnProbesAreNear) {
  alignas(4096) static std::byte probe[kProbeBytes];
  Distance writer(0, 2), reader(1, 2);
  for (int i = 0; i < 16; ++i) reader.read(0, writer.write(probe), probe);
  EXPECT_FALSE(reader.far());
}

// Each has its turn: what is read by another one than whom it is for would be in that one's cache.
TEST(Distance, ProbesAreForEachOfTheOthersInTurn) {
  alignas(4096) static std::byte probe[kProbeBytes];
  Distance writer(1, 4);
  std::vector<int> read(4);
  for (int i = 0; i < 9; ++i) {
    const std::uint32_t number = writer.write(probe);
    for (int m = 0; m < 4; ++m) read[m] += Distance(m, 4).read(1, number, probe);
  }
  EXPECT_EQ(read, (std::vector{3, 0, 3, 3}));
  EXPECT_FALSE(Distance(0, 4).read(1, 0, probe)) << "no probe";
}

}  // namespace
}  // namespace echelon::shm
