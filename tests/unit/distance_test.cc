// SPDX-License-Identifier: Apache-2.0
// How far the other ranks of a host are taken to be.
#include "transports/shm/distance.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Distance, WhatTheClockCannotTellDoesNotCount) {
  Distance distance(0, 2);
  for (int i = 0; i < 16; ++i) distance.note({kNear, nanoseconds(0)});
  EXPECT_FALSE(distance.known());
  EXPECT_FALSE(distance.far());
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

// One reads it: for the next one it would be in that one's cache.
TEST(Distance, AProbeIsForOneOfTheOthers) {
  alignas(4096) static std::byte probe[kProbeBytes];
  Distance writer(1, 4);
  std::vector<int> read(4);
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t number = writer.write(probe);
    int readers = 0;
    for (int m = 0; m < 4; ++m) {
      const bool one = Distance(m, 4).read(1, number, probe);
      readers += one;
      read[m] += one;
    }
    EXPECT_EQ(readers, 1) << number;
  }
  EXPECT_EQ(read[1], 0);
  for (const int m : {0, 2, 3}) EXPECT_NEAR(read[m], 100, 20) << m;
  EXPECT_FALSE(Distance(0, 4).read(1, 0, probe)) << "no probe";
}

// Of two sockets, ranks in order: among the first probes are those of both.
TEST(Distance, TheFirstProbesAreOfNoNeighbourhood) {
  alignas(4096) static std::byte probe[kProbeBytes];
  constexpr int kRanks = 64;
  std::vector<Distance> writers;
  for (int m = 0; m < kRanks; ++m) writers.emplace_back(m, kRanks);
  std::vector<int> near(kRanks), far(kRanks);
  for (int i = 0; i < 16; ++i)
    for (int w = 0; w < kRanks; ++w) {
      const std::uint32_t number = writers[w].write(probe);
      for (int m = 0; m < kRanks; ++m)
        if (m != w && Distance(m, kRanks).read(w, number, probe))
          ++(m / 32 == w / 32 ? near : far)[m];
    }
  for (int m = 0; m < kRanks; ++m) EXPECT_GE(std::min(near[m], far[m]), 4) << m;
}

}  // namespace
}  // namespace echelon::shm
