// SPDX-License-Identifier: Apache-2.0
// A rank that stops while the ranks of a split join each other, when their new communicator does
// not know them yet. The program stops itself in the system call that it has been told.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace {

std::atomic<int> connects_left = -1, accepts_left = -1;  // before this process stops; -1: never

void count_down(std::atomic<int>& left) {
  if (left >= 0 && left-- == 0) raise(SIGSTOP);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int connect(int fd, const sockaddr* to, socklen_t length) {
  count_down(connects_left);
  return next<decltype(&connect)>("connect")(fd, to, length);
}

__attribute__((visibility("default"))) int accept4(int fd, sockaddr* from, socklen_t* length,
                                                   int flags) {
  count_down(accepts_left);
  return next<decltype(&accept4)>("accept4")(fd, from, length, flags);
}

}  // extern "C"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 4;
constexpr double kHeartbeat = 1.5;  // s

struct Case {
  const char* name;
  int victim;  // of kRanks, all of which come into one part
  std::atomic<int>* counted;
  int before;  // how many calls come before the one in which it stops
};

class SplitStops : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Rank, SplitStops,
                         testing::Values(Case{"before_it_joins", 2, &connects_left, 0},
                                         Case{"as_the_root", 0, &accepts_left, 0},
                                         Case{"as_the_root_of_some", 0, &accepts_left, 1}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(SplitStops, TheOthersAreTold) {
  const Case c = GetParam();
  const World world;
  run_processes(kRanks, [&](int rank) {
    setenv("ECHELON_HEARTBEAT", std::to_string(kHeartbeat).c_str(), 1);
    Comm comm = make_comm(world, {rank, kRanks});
    expect_works(comm.get());
    if (rank == c.victim) {
      world.counter() = getpid();
      *c.counted = c.before;
    }
    ech_comm* part = nullptr;
    const auto begin = Clock::now();
    const ech_status status = ech_comm_split(comm.get(), 0, 0, &part);
    if (rank == c.victim) _exit(0);  // it has been continued
    EXPECT_TRUE(failed_with(status, ECH_ERR_TIMEOUT));
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 3 * kHeartbeat + 2);
    const std::string who = "rank " + std::to_string(c.victim) + " ";
    EXPECT_NE(std::string(ech_last_error()).find(who), std::string::npos) << ech_last_error();
    // By then all have noticed. Going on it ends.
    const int stopped = world.counter();
    usleep(1'000'000);
    kill(stopped, SIGCONT);
  });
}

}  // namespace
}  // namespace echelon::test
