// SPDX-License-Identifier: Apache-2.0
// What the lanes of one engine share: the members' segments and memory, and how to wake them.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "transports/shm/bell.h"
#include "transports/shm/distance.h"
#include "transports/shm/peer_memory.h"
#include "transports/shm/segment.h"

namespace echelon::shm {

// A member as its address describes it.
struct Member {
  std::uint32_t pid;
  std::uint64_t nonce;
  std::uint64_t header;  // where its segment is in its own address space
};

class Team {
 public:
  // `segments` and `members` in group order. Tries whether the others' memory can be read and
  // tells them.
  Team(int self, std::vector<Segment> segments, std::vector<Member> members);

  const int self;
  const std::vector<Segment> segments;
  PeerMemory memory;
  Distance distance;
  std::vector<std::byte> scratch;
  std::uint64_t bytes_taken = 0;  // from others
  ech_status failure = ECH_OK;    // set by a lane that could not read

  int size() const { return static_cast<int>(segments.size()); }

  // Wakes members that sleep. After every flag.
  void announce(Bell& bell) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // bell.h, invariant 1
    wake(bell);
  }

  // Without the fence: misses who goes to sleep in the moment in which the flag is on its way.
  void wake(Bell& bell) const {
    for (int m = 0; m < size(); ++m) {
      BellLine& line = *bells_[m];
      if (line.sleeping.load(std::memory_order_relaxed) != 0 && m != self)
        bell.ring(line, members_[m].nonce);
    }
  }

  // Reads a member's probe and tells the others what we know of the distance then.
  void read_probe(int member, std::uint32_t number, const std::byte* probe);

  // Whether a third or more of those who know find the others far. Who writes may not read.
  bool far() const;

  // Whether every member can read every other's memory; unknown until all have tried.
  enum class Readable { kUnknown, kNo, kYes };
  Readable readable();

 private:
  bool try_reading();

  const std::vector<Member> members_;
  std::vector<BellLine*> bells_;
  Readable readable_ = Readable::kUnknown;
};

}  // namespace echelon::shm
