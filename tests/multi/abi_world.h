// SPDX-License-Identifier: Apache-2.0
// Ranks that know only the C ABI: how their processes meet, and handles that end with their scope.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "echelon/echelon.h"

namespace echelon::test {

// Success, or the status and the message of the last failure.
testing::AssertionResult ok(ech_status status);
// `status` came out and has a message of one line.
testing::AssertionResult failed_with(ech_status status, ech_status wanted);

// Unique ids in memory that the processes share: rank 0 makes one, the others wait for it. Make
// it before the processes.
class World {
 public:
  explicit World(int ids = 1);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  ech_unique_id id(int slot, int rank) const;
  std::atomic<int>& counter() const;  // of all processes, 0 at first

 private:
  struct Slot;
  Slot* slots_;  // one more than there are ids, for the counter
  std::size_t bytes_;
};

struct Destroy {
  void operator()(ech_comm* comm) const { ech_comm_destroy(comm); }
};
using Comm = std::unique_ptr<ech_comm, Destroy>;

struct Place {
  int rank;
  int size;
  int slot = 0;  // which id of the world
};

ech_comm_options options_with(double timeout);
inline constexpr double kPatience = 60;  // s, for what is expected to end well

// Throws std::runtime_error with the library's message.
Comm make_comm(const World& world, const Place& place,
               ech_comm_options options = options_with(kPatience));

// Destroys it and expects that to succeed, which the destructor does not.
void close(Comm comm);

int rank_of(const ech_comm* comm);
int size_of(const ech_comm* comm);

// Allreduces a number and expects the right sum: that `comm` is in order.
void expect_works(ech_comm* comm);

}  // namespace echelon::test
