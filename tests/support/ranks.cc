// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void run_child(int rank, const RankBody& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = 0;
  try {
    body(rank);
    code = testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& e) {
    fprintf(stderr, "rank %d: %s\n", rank, e.what());
    code = 2;
  }
  fflush(nullptr);
  _exit(code);
}

// The child's wait status, or -1 when it had to be killed.
int wait_until(pid_t pid, Clock::time_point deadline) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    usleep(500);
  }
  return status;
}

}  // namespace

void run_processes(int n, const RankBody& body, std::chrono::seconds limit) {
  fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < n; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0) << "fork failed";
    if (pid == 0) run_child(rank, body);
    children.push_back(pid);
  }
  const auto deadline = Clock::now() + limit;
  for (int rank = 0; rank < n; ++rank) {
    const int status = wait_until(children[rank], deadline);
    EXPECT_NE(status, -1) << "rank " << rank << " ran past " << limit.count() << " s";
    EXPECT_EQ(status, 0) << "rank " << rank << " of " << n << " failed, wait status " << status;
  }
}

void run_threads(int n, const RankBody& body, std::chrono::seconds limit) {
  std::mutex mutex;
  std::condition_variable changed;
  int running = n;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
      }
      std::lock_guard lock(mutex);
      --running;
      changed.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, limit, [&] { return running == 0; })) {
      fprintf(stderr, "%d of %d ranks ran past %d s\n", running, n, int(limit.count()));
      _exit(3);
    }
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace echelon::test
