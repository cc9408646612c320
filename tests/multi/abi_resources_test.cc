// SPDX-License-Identifier: Apache-2.0
// Resources that run out, seen through the C ABI: rank 1 of three is the one that lacks something.
// Either all works, or rank 1 says what it lacks and what raises it; nobody crashes, nobody hangs,
// and nothing leaks.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

constexpr int kRanks = 3;
constexpr double kMiB = 1 << 20;

int open_descriptors() {
  int count = -1;  // the one that looks
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// What a limit on descriptors is compared with: the number of the next one.
int next_descriptor() {
  const int next = dup(STDERR_FILENO);
  ::close(next);
  return next;
}

double mapped_bytes() {
  std::size_t pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%zu", &pages) != 1) ADD_FAILURE() << "no statm";
  if (file != nullptr) std::fclose(file);
  return double(pages) * double(sysconf(_SC_PAGESIZE));
}

void limit(int resource, double most) {
  rlimit now{};
  ASSERT_EQ(getrlimit(resource, &now), 0);
  now.rlim_cur = static_cast<rlim_t>(most);  // the hard limit stays, to come back to
  ASSERT_EQ(setrlimit(resource, &now), 0);
}

void unlimited(int resource) {
  rlimit now{};
  ASSERT_EQ(getrlimit(resource, &now), 0);
  now.rlim_cur = now.rlim_max;
  ASSERT_EQ(setrlimit(resource, &now), 0);
}

// The message with which creation or the first allreduce failed, if it did.
std::optional<std::string> failure_of(const World& world, int rank, const char* plan,
                                      std::size_t count) {
  ech_comm_options options = options_with(20);
  options.algorithm = plan;
  try {
    Comm comm = make_comm(world, {rank, kRanks}, options);
    std::vector<float> data(count, float(rank + 1));
    const ech_status status =
        ech_allreduce(data.data(), data.data(), count, ECH_FLOAT32, ECH_SUM, comm.get());
    if (status != ECH_OK) return ech_last_error();
    EXPECT_EQ(std::ranges::count(data, 6.0f), std::ptrdiff_t(count));
  } catch (const std::runtime_error& e) {
    return e.what();
  } catch (const std::bad_alloc&) {
    return "out of memory (of this test)";
  }
  return std::nullopt;
}

struct Scarcity {
  const char* plan;
  int resource;
  std::function<double()> most;     // evaluated in rank 1
  std::vector<std::string> any_of;  // the message has one of these
  std::size_t count = 1000;
};

void expect_told(const Scarcity& scarcity) {
  const World world;
  run_processes(kRanks, [&](int rank) {
    const int before = open_descriptors();
    if (rank == 1) limit(scarcity.resource, scarcity.most());
    const auto text = failure_of(world, rank, scarcity.plan, scarcity.count);
    if (rank != 1) return;
    unlimited(scarcity.resource);
    EXPECT_LE(open_descriptors(), before + (text ? 0 : 8)) << "UCX keeps some for the process";
    if (!text) return;
    EXPECT_TRUE(std::ranges::any_of(scarcity.any_of, [&](const std::string& words) {
      return text->find(words) != std::string::npos;
    })) << *text;
  });
}

TEST(Resources, DescriptorsOverSharedMemory) {
  for (int more = 3; more <= 12; ++more) {  // with fewer it cannot even join
    SCOPED_TRACE(more);
    expect_told({nullptr, RLIMIT_NOFILE, [&] { return next_descriptor() + more; }, {"ulimit -n"}});
  }
}

// A rank that has joined, and cannot go on, tells the others why before it leaves.
TEST(Resources, WhatARankLacksAtCreationAllAreTold) {
  int told = 0;
  for (int more = 3; more <= 12; ++more) {
    SCOPED_TRACE(more);
    const World world;
    run_processes(kRanks, [&](int rank) {
      // Last, for who comes after it has failed finds nobody that could tell.
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (rank == 1) limit(RLIMIT_NOFILE, next_descriptor() + more);
      const auto text = failure_of(world, rank, nullptr, 1000);
      if (rank == 1 || !text) return;
      EXPECT_NE(text->find("rank 1"), std::string::npos) << *text;
      if (text->find("ulimit -n") != std::string::npos) ++world.counter();
    });
    told += world.counter();
  }
  EXPECT_GT(told, 0);
}

TEST(Resources, DescriptorsOverMessages) {
  for (int more : {3, 4, 6, 8, 12, 16, 24, 32, 64, 80}) {
    SCOPED_TRACE(more);
    expect_told({"ring", RLIMIT_NOFILE, [&] { return next_descriptor() + more; }, {"ulimit -n"}});
  }
}

TEST(Resources, AddressSpace) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space without a limit";
  for (int more = 0; more <= 120; more += 8) {
    SCOPED_TRACE(more);
    expect_told({nullptr,
                 RLIMIT_AS,
                 [&] { return mapped_bytes() + more * kMiB; },
                 {"out of memory", "ulimit -v", "ulimit -u"},
                 1 << 20});
  }
}

// The default of older container runtimes.
void refuse_process_vm_readv() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the system call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, code};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(Resources, RefusedReadsOfOtherRanksAreDoneWithout) {
  const World world;
  run_processes(kRanks, [&](int rank) {
    if (rank == 1) refuse_process_vm_readv();
    setenv("ECHELON_SINGLE_COPY", "on", 1);
    EXPECT_EQ(failure_of(world, rank, nullptr, 1 << 20), std::nullopt);
  });
}

// ---- the fabric file ----------------------------------------------------------------------------

// Every rank says which file it is and what is wrong with it, soon.
void expect_file_named(const std::string& path, const char* words) {
  SCOPED_TRACE(path);
  const World world;
  run_processes(2, [&](int rank) {
    if (geteuid() == 0 && setuid(65534) != 0) ADD_FAILURE() << "setuid";
    ech_comm_options options = options_with(20);
    options.fabric_file = path.c_str();
    try {
      const Comm comm = make_comm(world, {rank, 2}, options);
      ADD_FAILURE() << "it was read";
    } catch (const std::runtime_error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(path), std::string::npos) << text;
      EXPECT_NE(text.find(words), std::string::npos) << text;
    }
  });
}

TEST(Resources, AnUnreadableFabricFileIsNamed) {
  const std::string folder = testing::TempDir() + "fabric-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto path = [&](const char* name) { return folder + "/" + name; };
  std::ofstream(path("secret.toml")) << "";
  std::filesystem::permissions(path("secret.toml"), std::filesystem::perms::none);
  std::ofstream(path("large.toml")) << "";
  std::filesystem::resize_file(path("large.toml"), 100 << 20);
  std::ofstream(path("junk.toml")) << std::string(
      "\x7f"
      "ELF\x02\x01\0\xff\xfe{]=",
      12);
  EXPECT_EQ(mkfifo(path("pipe.toml").c_str(), 0666), 0);
  expect_file_named(path("none.toml"), "No such file");
  expect_file_named(path("secret.toml"), "Permission denied");
  expect_file_named(folder, "Is a directory");
  expect_file_named(path("pipe.toml"), "a pipe to which nobody writes");
  expect_file_named(path("large.toml"), "too long");
  expect_file_named(path("junk.toml"), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace echelon::test
