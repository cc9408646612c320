// SPDX-License-Identifier: Apache-2.0
// What communicators cost beside their operations, over the C ABI: how long one takes to make, the
// memory that it keeps, whether that grows with the number of operations, and the processor time of
// a rank that has nothing to do. Rank 0 prints a line per question, the largest number of all ranks
// in each. Fails if a communicator keeps more own memory than docs/performance.md allows it.
//
//   echelon run -n 8 -- build/bench/overhead [OPERATIONS]
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "echelon/echelon.hpp"

namespace {

constexpr int kSplits = 8;
constexpr std::chrono::seconds kPause(2);

// KiB of this process, from /proc/self/smaps_rollup: anonymous memory, and its part of what it
// shares with others. (Private_Dirty would count pages of that too, which no other has mapped yet.)
struct Memory {
  double own = 0, shared = 0;
};

Memory memory() {
  malloc_trim(0);
  std::ifstream file("/proc/self/smaps_rollup");
  Memory now;
  std::string word;
  for (double value = 0; file >> word;) {
    if (word == "Pss_Anon:" && file >> value) now.own = value;
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

// Microseconds of the processors that all threads of this process take for `work`.
template <typename Work>
double processor_time(Work work) {
  const std::clock_t begin = std::clock();
  work();
  return 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void pause() { std::this_thread::sleep_for(kPause); }

void measure_idleness(ech::Communicator& comm) {
  comm.barrier();
  const double outside = max_of(comm, processor_time(pause));
  comm.barrier();
  if (comm.rank() == 0) pause();
  const double waiting = max_of(comm, processor_time([&] { use(comm, 1); }));
  if (comm.rank() != 0) return;
  fmt::print("{} s outside of calls take         {:8.0f} us of a processor\n", kPause.count(),
             outside);
  fmt::print("and waiting as long for rank 0     {:8.0f} us\n", waiting);
}

struct Costs {
  double made, split;          // seconds
  double own, shared, growth;  // KiB
};

// KiB of its own memory that a communicator may keep in each rank.
double allowed(const ech::Communicator& comm) { return 1024 + 64 * comm.local_size(); }

void print_costs(const ech::Communicator& comm, int operations, const Costs& costs) {
  if (comm.rank() != 0) return;
  fmt::print("{} ranks on {} hosts\n", comm.size(), comm.host_count());
  fmt::print("the first communicator is made in  {:8.3f} s\n", costs.made);
  fmt::print("one more, by a split, in           {:8.3f} s\n", costs.split);
  fmt::print("it keeps, of a rank's own memory   {:8.0f} KiB (at most {:.0f})\n", costs.own,
             allowed(comm));
  fmt::print("and of shared memory, divided      {:8.0f} KiB\n", costs.shared);
  fmt::print("{} operations more keep       {:8.0f} KiB\n", operations, costs.growth);
}

// Whether own memory is within its limit.
bool measure(int operations) {
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
  const Costs costs{max_of(comm, made.count()), max_of(comm, split.count() / kSplits),
                    max_of(comm, (all.own - one.own) / kSplits),
                    max_of(comm, (all.shared - one.shared) / kSplits),
                    max_of(comm, later.own - all.own)};
  print_costs(comm, operations, costs);
  more.clear();
  measure_idleness(comm);
  std::fflush(stdout);  // before another rank that finds too much ends the job
  return costs.own <= allowed(comm);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (memory().own == 0) {
      fmt::print(stderr, "this kernel does not tell Pss_Anon in /proc/self/smaps_rollup\n");
      return 77;
    }
    return measure(argc > 1 ? std::atoi(argv[1]) : 100'000) ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
