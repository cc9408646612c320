// SPDX-License-Identifier: Apache-2.0
// Threads that cannot be started, seen through the C ABI: in one rank of three pthread_create fails
// from the Nth call on, for every N that there is, as it does beyond `ulimit -u`. (That limit
// itself does not bind root, and counts what else the user runs.) The rank says what it lacks and
// what raises it, the others which rank left them, and nothing is left behind.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>

#include "tests/multi/abi_survivors.h"

namespace {

constexpr int kNever = 1 << 30;
std::atomic<int> threads_left = kNever;  // until one fails

}  // namespace

// This program's comes before that of libc, for the libraries too.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return real(thread, attributes, start, argument);
}

namespace echelon::test {
namespace {

constexpr int kRanks = 3;
constexpr double kTimeout = 10;

int descriptors() {
  const auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

// The message with which creation or the first sum failed; "" when all went well.
std::string failure_of(const World& world, int rank, const char* plan) {
  ech_comm_options options = options_with(kTimeout);
  options.algorithm = plan;
  try {
    const Comm comm = make_comm(world, {rank, kRanks}, options);
    expect_works(comm.get());
    return "";
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

class Thread : public testing::TestWithParam<std::pair<const char*, int>> {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitizers have a pthread_create of their own";
  }
};

TEST_P(Thread, ThatCannotBeStartedIsNamed) {
  const auto [plan, before] = GetParam();
  const World world;
  const auto rank_main = [&, plan = plan, before = before](int rank) {
    const int open = descriptors();
    if (rank == 1) threads_left = before;
    const std::string text = failure_of(world, rank, plan);
    if (rank == 1) {
      EXPECT_LT(threads_left, 0) << "none was wanted";
      EXPECT_NE(text.find("ulimit -u"), text.npos) << text;
      EXPECT_LE(descriptors(), open);
    } else {
      EXPECT_TRUE(text.find("rank 1 ") != text.npos || text.find("rank 0 ") != text.npos) << text;
    }
  };
  run_processes(kRanks, rank_main, std::chrono::seconds(2 * int(kTimeout)));
}

// The control connection's; then the one with which room for UCX's is tried.
INSTANTIATE_TEST_SUITE_P(Of, Thread,
                         testing::Values(std::pair{nullptr, 0}, std::pair{"ring", 0},
                                         std::pair{"ring", 1}));

// It would tell others that this rank lives. Without, they meet all the same.
TEST(ThreadOf, NoDoormanHindersNoShrink) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a pthread_create of their own";
  const World world;
  run_with_victims(kRanks, {2}, [&](int rank) {
    const Comm comm = make_comm(world, {rank, kRanks}, options_with(kTimeout));
    Meeting(world).of(kRanks);
    if (rank == 1) threads_left = 0;
    if (rank == 2) raise(SIGKILL);
    EXPECT_NE(ech_barrier(comm.get()), ECH_OK);
    // The thread that hears of the failure wants another one, perhaps a moment later.
    for (int ms = 0; rank == 1 && threads_left >= 0 && ms < 5000; ++ms) usleep(1000);
    EXPECT_TRUE(rank != 1 || threads_left < 0) << "no thread was wanted";
    threads_left = kNever;
    Comm survivors = shrink(comm.get());
    ASSERT_NE(survivors, nullptr);
    expect_works(survivors.get());
    close(std::move(survivors));
  });
}

// A shrink without a thread may be tried again.
TEST(ThreadOf, AShrinkMayComeLater) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a pthread_create of their own";
  const World world;
  run_processes(2, [&](int rank) {
    const Comm comm = make_comm(world, {rank, 2}, options_with(kTimeout));
    Meeting(world).of(2);
    if (rank == 0) ech_comm_abort(comm.get());
    while (ech_barrier(comm.get()) == ECH_OK) continue;
    usleep(300'000);  // both have what tells the other that they live
    if (rank == 1) threads_left = 0;
    ech_comm* none = nullptr;
    if (rank == 1) {
      EXPECT_TRUE(failed_with(ech_comm_shrink(comm.get(), &none), ECH_ERR_NO_MEMORY));
      EXPECT_NE(std::string(ech_last_error()).find("ulimit -u"), std::string::npos);
    }
    threads_left = kNever;
    Comm both = shrink(comm.get());
    ASSERT_NE(both, nullptr);
    EXPECT_EQ(size_of(both.get()), 2);
    expect_works(both.get());
    close(std::move(both));
  });
}

}  // namespace
}  // namespace echelon::test
