// SPDX-License-Identifier: Apache-2.0
// SIGKILL of everything, or of the launcher alone, at any moment: nothing is left, but for what the
// next job removes. All of it happens on a virtual host, where nothing else is going on.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/base/file.h"
#include "tests/cluster/virtual_cluster.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Names = std::set<std::string>;
using std::chrono::milliseconds;

constexpr int kRanks = 4;
constexpr milliseconds kStart{60'000 * kSlowness};  // of a job, on a busy machine
constexpr milliseconds kEnd{5'000 * kSlowness};     // of what is killed

struct Job {
  const char* name;
  std::vector<std::string> options;  // of `echelon run`
};

const std::vector<Job>& jobs() {
  static const std::vector<Job> all = {
      {"in shared memory", {"-n", std::to_string(kRanks)}},
      {"over UCX", {"-n", std::to_string(kRanks), "--env", "ECHELON_ALGORITHM=ring"}},
      {"emulated", {"--emulate", "2x2:10gbit"}}};
  return all;
}

class Killed : public testing::Test {
 protected:
  void SetUp() override {
    cluster_ = make_cluster("1x1");
    if (!cluster_) return;
    root_ = fmt::format("/proc/{}/root", cluster_->host(0).pid());
    if (tmp_is_needed()) return;
    ASSERT_EQ(cluster_->run(0, {"mount", "-t", "tmpfs", "none", "/tmp"}), 0);
  }

  static std::string program() { return std::getenv("ECHELON_PROGRAM"); }
  // What is tested may lie in /tmp. Else the host has one of its own, as others use this machine's.
  static bool tmp_is_needed() {
    return program().starts_with("/tmp/") || fs::current_path().string().starts_with("/tmp");
  }
  Names names_in(const std::string& folder) const;
  Names inventory() const;
  Names processes() const;
  pid_t start(const Job& job, const char* moment, const Fd& out) const;
  void await_ranks(const Fd& out) const;
  void kill_everything() const;
  void expect_nothing_runs() const;
  void try_once(const Job& job, const char* moment, bool all);

  std::unique_ptr<cluster::Cluster> cluster_;
  std::string root_;
  std::mt19937 random_{20};
};

Names Killed::names_in(const std::string& folder) const {
  Names out;
  for (const auto& entry : fs::directory_iterator(root_ + folder))
    out.insert(entry.path().filename());
  return out;
}

// What a job could leave on a host, apart from processes.
Names Killed::inventory() const {
  Names out;
  for (const std::string folder : {"/dev/shm", "/tmp", "/sys/class/net"})
    if (folder != "/tmp" || !tmp_is_needed())
      for (const std::string& name : names_in(folder)) out.insert(folder + "/" + name);
  std::ifstream mounts(fmt::format("/proc/{}/mounts", cluster_->host(0).pid()));
  for (std::string line; std::getline(mounts, line);) out.insert(line);
  return out;
}

// All that run on the host, also in virtual hosts of its own, but for its init.
Names Killed::processes() const {
  Names out = names_in("/proc");
  std::erase_if(out, [](const std::string& name) {
    return name == "1" || !std::ranges::all_of(name, [](unsigned char c) { return isdigit(c); });
  });
  return out;
}

// What a job that is killed may leave of UCX, and the next one removes.
Names without_ucx(Names names) {
  std::erase_if(
      names, [](const std::string& name) { return name.starts_with("/dev/shm/ucx_shm_posix_"); });
  return names;
}

pid_t Killed::start(const Job& job, const char* moment, const Fd& out) const {
  cluster::Command command;
  command.argv = {program(), "run"};
  command.argv.insert(command.argv.end(), job.options.begin(), job.options.end());
  const std::string large = std::to_string(1 << 18);
  command.argv.insert(command.argv.end(), {"--", std::getenv("ECHELON_FAULT_RANK"), moment, large});
  command.out = out.get();
  return cluster_->spawn(0, command);
}

// Until every rank has said "in".
void Killed::await_ranks(const Fd& out) const {
  const auto limit = Clock::now() + kStart;
  for (int in = 0; in < kRanks; usleep(1000)) {
    char text[4096];
    const ssize_t n = pread(out.get(), text, sizeof text, 0);
    const std::string_view said(text, n > 0 ? static_cast<std::size_t>(n) : 0);
    in = 0;
    for (std::size_t at = said.find("in "); at != said.npos; at = said.find("in ", at + 1)) ++in;
    ASSERT_LT(Clock::now(), limit) << said;
  }
}

void Killed::kill_everything() const { cluster_->run(0, {"sh", "-c", "kill -9 -1"}); }

void Killed::expect_nothing_runs() const {
  const auto limit = Clock::now() + kEnd;
  while (!processes().empty() && Clock::now() < limit) usleep(1000);
  for (const std::string& process : processes())
    ADD_FAILURE() << "still runs: " << read_file(root_ + "/proc/" + process + "/cmdline");
}

void Killed::try_once(const Job& job, const char* moment, bool all) {
  SCOPED_TRACE(fmt::format("{}, {}, {}", job.name, moment, all ? "everything" : "the launcher"));
  const Names before = inventory();
  const Fd out = cluster::text_file("");
  const pid_t launcher = start(job, moment, out);
  const bool creation = std::string_view(moment) == "creation";
  if (!creation) await_ranks(out);
  usleep(random_() % (creation ? 250'000 : 60'000));
  if (all)
    kill_everything();
  else
    kill(launcher, SIGKILL);
  EXPECT_EQ(cluster::wait_for(launcher), 128 + SIGKILL);
  expect_nothing_runs();
  EXPECT_EQ(without_ucx(inventory()), without_ucx(before));
}

// The next job that opens UCX removes what UCX has left.
TEST_F(Killed, LeavesNothing) {
  const Names before = inventory();
  for (const Job& job : jobs())
    for (const char* moment : {"creation", "idle", "allreduce", "split"})
      for (bool all : {true, false}) try_once(job, moment, all);
  cluster::write_file(root_ + "/dev/shm/ucx_shm_posix_left", std::string(4096, 'x'));
  const Fd out = cluster::text_file("");
  EXPECT_EQ(cluster::wait_for(start(jobs()[1], "destroy", out)), 0);
  expect_nothing_runs();
  EXPECT_EQ(inventory(), before);
}

}  // namespace
}  // namespace echelon::test
