// SPDX-License-Identifier: Apache-2.0
// Virtual clusters: that hosts are apart, links have their speed, counters are right, and nothing
// stays behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/file.h"
#include "tests/cluster/virtual_cluster.h"
#include "tools/cluster/cluster.h"
#include "tools/cluster/cores.h"

namespace echelon::test {
namespace {

namespace fs = std::filesystem;
using cluster::Cluster;
using cluster::parse_spec;
using Clock = std::chrono::steady_clock;

using Emulate = OnCluster;

std::string peer() { return std::getenv("ECHELON_STREAM_PEER"); }

Result emulate(const std::string& spec, std::vector<std::string> args) {
  args.insert(args.begin(), {"--emulate", spec});
  return echelon_run(args);
}

// What a host prints.
std::string said(const Cluster& cluster, int host, const std::string& script) {
  const Fd output = cluster::text_file("");
  cluster::Command command;
  command.argv = {"sh", "-c", script};
  command.out = output.get();
  EXPECT_EQ(cluster::wait_for(cluster.spawn(host, command)), 0) << script;
  char text[4096] = {};
  EXPECT_GE(pread(output.get(), text, sizeof text - 1, 0), 0);
  return text;
}

TEST_F(Emulate, HostsShareNothingThatLibrariesLookAt) {
  const Cluster cluster(parse_spec("2x1:1gbit"));
  const char* const identities[] = {
      "hostname", "cat /proc/sys/kernel/random/boot_id",
      "ls -l /proc/self/ns/ | grep -v time | grep -v user | grep -v cgroup | md5sum",
      "stat -c %d /dev/shm"};
  for (const char* script : identities) {
    EXPECT_NE(said(cluster, 0, script), said(cluster, 1, script)) << script;
  }
  EXPECT_EQ(said(cluster, 0, "hostname"), "host0\n");
  EXPECT_EQ(said(cluster, 1, "ls /sys/class/net"), "eth0\nlo\n");
  const std::string allowed_control =
      "for c in cubic reno; do grep -qw $c tcp_allowed*control && echo $c && exit; done; ";
  const std::string now = "cat tcp_congestion_control", folder = "cd /proc/sys/net/ipv4; ";
  EXPECT_EQ(said(cluster, 1, folder + now), said(cluster, 1, folder + allowed_control + now));
  const std::string allowed = "grep Cpus_allowed_list: /proc/self/status";
  if (cluster::usable_cores().size() > 1) {
    EXPECT_NE(said(cluster, 0, allowed), said(cluster, 1, allowed));
  }
  EXPECT_EQ(said(cluster, 0, "touch /dev/shm/x; ls /dev/shm"), "x\n");
  EXPECT_EQ(said(cluster, 1, "ls /dev/shm"), "");
  EXPECT_EQ(said(cluster, 1, "getent hosts host0 | tr -s ' '"), "10.200.0.1 host0\n");
  EXPECT_EQ(said(cluster, 1, "cat /proc/1/comm"), "echelon-host\n");
  EXPECT_FALSE(fs::exists("/dev/shm/x"));
}

TEST_F(Emulate, FourHostsAreThereQuickly) {
  const auto start = Clock::now();
  const Cluster cluster(parse_spec("4x2:1gbit"));
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(1500));
  EXPECT_EQ(cluster.run(3, {"true"}), 0);
  EXPECT_EQ(cluster.run(0, {"sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(cluster.run(0, {"sh", "-c", "kill -9 $$"}), 128 + SIGKILL);
}

struct Shape {
  const char* spec;
  double mbit;  // of the narrowest link between the first and the last host
};

class EmulateSpeed : public Emulate, public testing::WithParamInterface<Shape> {};

TEST_P(EmulateSpeed, LinksHaveIt) {
  const double limit = GetParam().mbit;
  const auto bytes = static_cast<std::uint64_t>(limit * 1e6 / 8 * 0.4);  // 0.4 s
  const Result r = emulate(
      GetParam().spec, {"--traffic=/dev/null", "--no-tag", "--", peer(), std::to_string(bytes)});
  ASSERT_EQ(r.code, 0) << r.err;
  const double measured = std::stod(r.out);
  EXPECT_LT(measured, 1.05 * limit);  // the shaper's burst counts for a little
  EXPECT_GT(measured, 0.6 * limit) << "a busy machine is slower, but not this much";
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulateSpeed,
                         testing::Values(Shape{"2x1:100mbit", 100}, Shape{"3+1+2:200mbit", 200},
                                         Shape{"2x2x1:100mbit/1gbit", 100},
                                         Shape{"2x1:2x200mbit", 200},
                                         Shape{"2x1:400mbit,host1=100mbit", 100}));

void expect_near(const nlohmann::json& value, double expected) {
  EXPECT_NEAR(value.get<double>(), expected, expected * 0.05);
}

TEST_F(Emulate, CountersAreRight) {
  constexpr double kBytes = 20e6;
  nlohmann::json traffic;
  const Result r =
      run_counted("2x2x1:1gbit/1gbit", {peer(), std::to_string(static_cast<int>(kBytes))}, traffic);
  ASSERT_EQ(r.code, 0) << r.err;
  const auto& hosts = traffic["hosts"];
  const auto& racks = traffic["racks"];
  ASSERT_EQ(hosts.size(), 4u);
  ASSERT_EQ(racks.size(), 2u);
  EXPECT_EQ(hosts[3]["host"], "host3");
  expect_near(hosts[3]["sent"], kBytes);
  expect_near(hosts[0]["received"], kBytes);
  EXPECT_LT(hosts[1]["sent"].get<double>(), 0.01 * kBytes);
  EXPECT_LT(hosts[0]["sent"].get<double>(), 0.05 * kBytes);
  expect_near(racks[1]["sent"], kBytes);
  expect_near(racks[0]["received"], kBytes);
}

TEST_F(Emulate, TrafficTableGoesToStderr) {
  const Result r = emulate("2x1:1gbit", {"--traffic", "--", "true"});
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("bytes sent"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("host1"), std::string::npos);
}

TEST_F(Emulate, RanksFindTheirFabric) {
  const Result r =
      emulate("2x2x1:1gbit/10gbit", {"-n", "4", "--", "sh", "-c", "grep -c rack $ECHELON_FABRIC"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines_of(r.out).size(), 4u);
  const Result without =
      emulate("2x1:1gbit", {"--no-fabric", "--", "sh", "-c", "test -z \"$ECHELON_FABRIC\""});
  EXPECT_EQ(without.code, 0) << without.err;
}

// Their boot ids differ, but their CPUs are those of this machine.
TEST_F(Emulate, RanksKnowTheMachineThatTheyShare) {
  std::string here;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), here);
  const std::vector<std::string> say = {"--", "sh", "-c", "echo $ECHELON_MACHINE"};
  const Result r = emulate("2x1:1gbit", say);
  EXPECT_EQ(r.out, here + "\n" + here + "\n") << r.err;
  setenv("ECHELON_MACHINE", "another", 1);
  const Result told = emulate("2x1:1gbit", say);
  unsetenv("ECHELON_MACHINE");
  EXPECT_EQ(told.out, "another\nanother\n") << told.err;
}

TEST_F(Emulate, UnequalHostsAndFailuresAreNamed) {
  const Result r = emulate("3+1+2:1gbit", {"--tag-output", "--", "sh", "-c",
                                           "echo $ECHELON_LOCAL_RANK/$ECHELON_LOCAL_SIZE; "
                                           "[ $ECHELON_RANK = 3 ] && kill -9 $$; sleep 100"});
  EXPECT_EQ(r.code, 137);
  EXPECT_TRUE(matches(r.err, R"(rank 3 on host1 \(pid [0-9]+\) was killed by signal 9)")) << r.err;
  EXPECT_NE(r.out.find("[3 host1] 0/1\n"), std::string::npos) << r.out;
}

// Rank 4 fails late, since the others are ended then, whether they have said who they are or not.
TEST_F(Emulate, AgentsStartThroughTheRshScript) {
  const Result r = emulate(
      "2+3:1gbit", {"--shell", program() + " run --tag-output -H $ECHELON_HOSTS "
                                           "-- sh -c 'hostname; "
                                           "[ $ECHELON_RANK = 4 ] && sleep 1 && exit 9; true'"});
  EXPECT_EQ(r.code, 9) << r.err;
  EXPECT_NE(r.out.find("[0 host0] host0\n"), std::string::npos) << r.out << r.err;
  EXPECT_NE(r.out.find("[4 host1] host1\n"), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("rank 4 on host1"), std::string::npos) << r.err;
}

TEST_F(Emulate, WhatTheShellLeavesRunningEndsWithIt) {
  const Result r = emulate("2x1:1gbit", {"--shell",
                                         "$ECHELON_RSH host1 'echo up; exec sleep 1000' & "
                                         "sleep 0.5; echo over"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("over\n"), std::string::npos) << r.out;
}

TEST_F(Emulate, AMissingInterfaceIsFoundBeforeTheStart) {
  const Result r = emulate("2x1:1gbit", {"--interface", "eth1", "--", "true"});
  EXPECT_EQ(r.code, 4);
  EXPECT_EQ(lines_of(r.err).size(), 2u) << r.err;
  EXPECT_NE(r.err.find("host1: no interface eth1; there are lo eth0"), std::string::npos) << r.err;
}

bool reaches(const Cluster& cluster, int from, int to) {
  const std::string script =
      "timeout 0.3 bash -c 'echo > /dev/tcp/" + Cluster::address(to) + "/9' 2>&1 | grep -q refused";
  return cluster.run(from, {"sh", "-c", script}) == 0;
}

TEST_F(Emulate, HostsCanBeCutOffAndBroughtBack) {
  const Cluster cluster(parse_spec("2x1:1gbit"));
  EXPECT_TRUE(reaches(cluster, 0, 1));
  cluster.set_link(1, false);
  EXPECT_FALSE(reaches(cluster, 0, 1));
  cluster.set_link(1, true);
  EXPECT_TRUE(reaches(cluster, 0, 1));
  cluster.delete_address(1);
  EXPECT_FALSE(reaches(cluster, 0, 1));
  cluster.add_address(1);
  EXPECT_TRUE(reaches(cluster, 0, 1));
}

char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  return stat.at(stat.rfind(')') + 2);
}

TEST_F(Emulate, HostsCanBeStopped) {
  const Cluster cluster(parse_spec("2x1:1gbit"));
  cluster::Command command;
  command.argv = {"sleep", "100"};
  const pid_t first = cluster.spawn(0, command), second = cluster.spawn(1, command);
  for (pid_t pid : {first, second})
    while (state_of(pid) != 'S') usleep(1000);  // until then they start
  cluster.stop(1);
  while (state_of(second) != 'T') usleep(1000);
  EXPECT_EQ(state_of(first), 'S');
  cluster.resume(1);
  while (state_of(second) != 'S') usleep(1000);
  for (pid_t pid : {first, second}) kill(pid, SIGKILL);
  EXPECT_EQ(cluster::wait_for(first), 128 + SIGKILL);
  EXPECT_EQ(cluster::wait_for(second), 128 + SIGKILL);
}

// Everything on this machine that a cluster could leave behind.
struct Inventory {
  std::set<std::string> interfaces, mounts;
  bool operator==(const Inventory&) const = default;
};

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) out.insert(entry.path());
  return out;
}

Inventory inventory() {
  Inventory out;
  out.interfaces = names_in("/sys/class/net");
  for (const std::string& line : lines_of(read_file("/proc/self/mounts"))) {
    out.mounts.insert(line);
  }
  return out;
}

// The network namespaces that processes of `parent`, or of its children, live in.
std::set<std::string> namespaces_of(pid_t parent) {
  std::set<std::string> out;
  std::error_code ignored;
  const std::string task = "/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent);
  std::ifstream children(task + "/children");
  for (pid_t child = 0; children >> child;) {
    out.insert(fs::read_symlink("/proc/" + std::to_string(child) + "/ns/net", ignored));
  }
  out.erase("");  // of a child that has just gone
  return out;
}

bool any_process_in(const std::set<std::string>& namespaces) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (namespaces.count(fs::read_symlink(entry.path() / "ns/net", ignored)) > 0) return true;
  }
  return false;
}

TEST_F(Emulate, KillingTheLauncherLeavesNothing) {
  const Inventory before = inventory();
  cluster::Command command;
  command.argv = {program(), "run", "--emulate", "2x2:1gbit",
                  "--",      "sh",  "-c",        "touch /dev/shm/left; setsid sleep 1000"};
  const pid_t pid = cluster::spawn(command);
  std::set<std::string> spaces;
  const std::string own = fs::read_symlink("/proc/self/ns/net");
  while (spaces.size() < 4) {  // two hosts, the switch, ours
    spaces = namespaces_of(pid);
    spaces.insert(own);
    usleep(10000);
  }
  usleep(300000);  // ranks are running by now
  spaces.erase(own);
  EXPECT_TRUE(any_process_in(spaces));
  kill(pid, SIGKILL);
  cluster::wait_for(pid);
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  while (any_process_in(spaces) && Clock::now() < deadline) usleep(10000);
  EXPECT_FALSE(any_process_in(spaces));
  EXPECT_EQ(before, inventory());
  EXPECT_FALSE(fs::exists("/dev/shm/left"));
}

TEST_F(Emulate, WithoutRootItSaysWhatIsMissing) {
  if (run_program({"setpriv", "--version"}).code != 0) GTEST_SKIP() << "no setpriv here";
  const Result r = run_program({"setpriv", "--reuid=65534", "--clear-groups", program(), "run",
                                "--emulate", "2x1:1gbit", "--", "true"});
  if (r.code == 127) GTEST_SKIP() << "others may not run " << program();
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("root (CAP_SYS_ADMIN) is needed"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace echelon::test
