// SPDX-License-Identifier: Apache-2.0
// How a rank sleeps and how the others wake it.
//
// Each rank has one word `sleeping` in its segment:
//   kAwake    it polls; nobody needs to do anything
//   kOnFd     it may be in poll(): send a datagram to its socket
//   kOnFutex  it is in futex() on the word itself
// and, asleep, kDataOnly beside: ends of rounds concern it not, and do not wake it.
//
// Invariants
//  1. Who raises a flag then executes a sequentially consistent fence and reads `sleeping` of
//     every member; who falls asleep writes `sleeping`, executes such a fence and looks at all
//     flags once more. Of the two, at least one sees what the other wrote: no wake is lost. (After
//     one flag, whose wake may come late, there is no fence: lane.h, invariant 4.)
//  2. Only the exchange that takes the word from a sleeping value to kAwake wakes, so a sleeper
//     costs one system call however many flags are raised meanwhile.
//  3. The change from kOnFd to kOnFutex is a compare-exchange: it fails when the wake has been
//     taken already, and then there is no sleep.
//  4. A datagram may come when its sleeper has long been awake, for another reason, and makes the
//     next poll() return at once. So after each sleep on the descriptor the socket is emptied,
//     whatever woke: what stays there would let nobody sleep until somebody rings again.
//
// Thread safety: ring_self() from any thread, the rest by the thread that drives the engine.
#pragma once

#include <chrono>
#include <cstdint>

#include "lib/base/fd.h"
#include "transports/shm/segment.h"

namespace echelon::shm {

// What a flag says: there is data, or a member reads no more of a round.
enum class Flag { kData, kEnd };

inline constexpr std::uint32_t kAwake = 0, kOnFd = 1, kOnFutex = 2, kDataOnly = 4;

// The socket of the rank whose segment has this nonce, in the abstract name space.
class Bell {
 public:
  Bell(BellLine& line, std::uint64_t nonce);  // throws ECH_ERR_SYSTEM

  int fd() const { return socket_.get(); }

  void arm(bool for_ends);  // the caller looks for news after it
  void stay_awake();        // there were some: no sleep
  void disarm();            // after a sleep
  void sleep(std::chrono::nanoseconds limit);
  void ring_self() { ring(*line_, nonce_); }

  // Whether the owner of `line` is to be woken for it. For the hot path.
  static bool hears(const BellLine& line, Flag flag) {
    const std::uint32_t sleeping = line.sleeping.load(std::memory_order_relaxed);
    return sleeping != kAwake && (flag == Flag::kData || (sleeping & kDataOnly) == 0);
  }

  // Wakes the owner of `line`.
  void ring(BellLine& line, std::uint64_t nonce);

 private:
  BellLine* line_;
  std::uint64_t nonce_;
  Fd socket_;
  std::uint32_t heard_ = 0;  // beside the kind of sleep
  bool on_futex_ = false;    // the last sleep was
};

}  // namespace echelon::shm
