// SPDX-License-Identifier: Apache-2.0
// Ranks of one group for the conformance suite, as threads or as processes, with a page of shared
// memory on which they find each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transports/group.h"

namespace echelon::test {

using Memory = std::shared_ptr<std::byte[]>;

// One way to make a group: what an implementation passes to join the suite.
struct GroupCase {
  std::string name;
  bool processes = false;
  std::function<std::unique_ptr<GroupMedium>()> make;
  std::size_t largest = 2 << 20;  // bytes of the largest calls
  // Where the buffers of calls come from.
  std::function<Memory(std::size_t)> allocate = [](std::size_t n) {
    return Memory(new std::byte[n]);
  };
};

class Board;

// One member's view while the body runs.
class GroupRank {
 public:
  GroupRank(int own, int members, GroupEngine& e, Board& b, const GroupCase& c)
      : self(own), size(members), engine(e), board(b), made(c) {}

  const int self;
  const int size;
  GroupEngine& engine;
  Board& board;
  const GroupCase& made;
  std::chrono::nanoseconds longest_sleep{0};
  std::uint64_t turn = 0;  // of the next call

  // Progresses until the lane is done: polls a little, then sleeps, in turns on the descriptor
  // and in sleep(), each time for kSleepLimit at most.
  void wait(int lane);
  void run(int lane, const GroupWork& work) {
    start(lane, work);
    wait(lane);
  }
  // Takes the next turn: every member starts the same calls in the same order.
  void start(int lane, GroupWork work) {
    work.turn = turn++;
    engine.start(lane, work);
  }

 private:
  void doze();
  int turns_ = 0;
};

inline constexpr std::chrono::seconds kSleepLimit{5};

class Board {
 public:
  static constexpr int kMaxRanks = 16;

  Board();
  ~Board();
  Board(const Board&) = delete;

  void barrier(int size);
  void post(int rank, const std::string& address);
  std::string address(int rank) const;
  std::atomic<std::uint64_t>& number(int rank);  // for the test; starts at 0

 private:
  struct Page;
  Page* page_;
};

// Runs body on `size` connected members.
void run_group(const GroupCase& make, int size, const std::function<void(GroupRank&)>& body);

}  // namespace echelon::test
