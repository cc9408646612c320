// SPDX-License-Identifier: Apache-2.0
// Ranks of which some die and the others go on, through the C ABI.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {

using Ranks = std::vector<int>;
using Mask = std::uint64_t;  // of ranks of the first communicator

Mask mask_of(const Ranks& ranks);
Ranks all_but(int size, const Ranks& dead);

void kill_self_after(std::chrono::microseconds time);

// Runs body(rank) in processes of which `victims` end by SIGKILL and the others well.
void run_with_victims(int size, const Ranks& victims, const RankBody& body);

// Ranks that wait for each other without a communicator: a shrink ends what others are still in,
// also if their part of it is nearly done.
class Meeting {
 public:
  explicit Meeting(const World& world) : counter_(world.counter()) {}
  void of(int ranks);

 private:
  std::atomic<int>& counter_;
  int goal_ = 0;
};

// Of the ranks that take part, when the sum is right on every element. 0 after a failure.
Mask checked_sum(ech_comm* comm, int id, std::size_t count);

// As callers do: until it works.
Comm shrink(ech_comm* failed);

// The ranks are those of `mask` in their old order.
void expect_order(ech_comm* comm, int id, Mask mask);

// Every collective gives what it should, with several types, operators and roots.
void expect_all_work(ech_comm* comm);

}  // namespace echelon::test
