// SPDX-License-Identifier: Apache-2.0
// One rank of shrink_test, started with the variables of `echelon run`. It sums over and over, and
// shrinks its communicator when that fails, until it is in one of so few ranks that it is done. It
// checks every collective after each shrink and says
//   size N NS     the communicator has N ranks and works, since NS of CLOCK_MONOTONIC
//   done
//
//   shrink_rank COUNT RANKS_AT_THE_END
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/multi/abi_survivors.h"

namespace echelon::test {
namespace {

constexpr int kRoundsAtTheEnd = 20;

bool all_is_well() { return !testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed(); }

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(4);
}

// Until it fails, or has gone well for long enough.
bool goes_well_to_the_end(ech_comm* comm, int id, std::size_t count, int last_size) {
  const int size = size_of(comm);
  const std::int64_t one = 1;
  std::int64_t ranks = 0;
  if (ech_allreduce(&one, &ranks, 1, ECH_INT64, ECH_SUM, comm) != ECH_OK) return false;
  EXPECT_EQ(ranks, size);
  say("size " + std::to_string(size) + " " +
      std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
  for (int good = 0; size > last_size || good < kRoundsAtTheEnd; ++good)
    if (checked_sum(comm, id, count) == 0) return false;
  return true;
}

int run(std::size_t count, int last_size) {
  const int id = std::atoi(std::getenv("ECHELON_RANK"));
  ech_comm* made = nullptr;
  EXPECT_TRUE(ok(ech_comm_create(&made, nullptr)));
  Comm comm(made);
  while (comm != nullptr && !goes_well_to_the_end(comm.get(), id, count, last_size))
    comm = shrink(comm.get());
  if (comm == nullptr) return 1;
  expect_all_work(comm.get());
  close(std::move(comm));
  say(all_is_well() ? "done" : "wrong");
  return all_is_well() ? 0 : 1;
}

}  // namespace
}  // namespace echelon::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return echelon::test::run(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]));
}
