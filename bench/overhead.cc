// SPDX-License-Identifier: Apache-2.0
// What communicators cost beside their operations, over the C ABI: how long one takes to make, the
// memory that it keeps, and whether that grows with the number of operations. Rank 0 prints a line
// per question, the largest number of all ranks in each.
//
//   echelon run -n 8 -- build/bench/overhead [OPERATIONS]
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "echelon/echelon.hpp"

namespace {

constexpr int kSplits = 8;

// KiB of this process, from /proc/self/smaps_rollup: what it has alone, and its part of what it
// shares with others.
struct Memory {
  double own = 0, shared = 0;
};

Memory memory() {
  malloc_trim(0);
  std::ifstream file("/proc/self/smaps_rollup");
  Memory now;
  std::string word;
  for (double value = 0; file >> word;) {
    if (word == "Private_Dirty:" && file >> value) now.own = value;
    if (word == "Pss_Shmem:" && file >> value) now.shared = value;
  }
  return now;
}

double max_of(ech::Communicator& comm, double value) {
  comm.allreduce(&value, &value, 1, ECH_MAX);
  return value;
}

void use(ech::Communicator& comm, int times) {
  float data = 0;
  for (int i = 0; i < times; ++i) comm.allreduce(&data, &data, 1);
}

void measure(int operations) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  ech::Communicator comm;
  const std::chrono::duration<double> made = Clock::now() - begin;
  use(comm, 100);
  const Memory one = memory();
  std::vector<ech::Communicator> more;
  const auto before = Clock::now();
  for (int i = 0; i < kSplits; ++i) more.push_back(comm.split(0, comm.rank()));
  const std::chrono::duration<double> split = Clock::now() - before;
  for (ech::Communicator& c : more) use(c, 100);
  const Memory all = memory();
  use(comm, operations);
  const Memory later = memory();
  const double numbers[] = {max_of(comm, made.count()), max_of(comm, split.count() / kSplits),
                            max_of(comm, (all.own - one.own) / kSplits),
                            max_of(comm, (all.shared - one.shared) / kSplits),
                            max_of(comm, later.own - all.own)};
  if (comm.rank() != 0) return;
  fmt::print("{} ranks on {} hosts\n", comm.size(), comm.host_count());
  fmt::print("the first communicator is made in  {:8.3f} s\n", numbers[0]);
  fmt::print("one more, by a split, in           {:8.3f} s\n", numbers[1]);
  fmt::print("it keeps, of a rank's own memory   {:8.0f} KiB\n", numbers[2]);
  fmt::print("and of shared memory, divided      {:8.0f} KiB\n", numbers[3]);
  fmt::print("{} operations more keep       {:8.0f} KiB\n", operations, numbers[4]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    measure(argc > 1 ? std::atoi(argv[1]) : 100'000);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
