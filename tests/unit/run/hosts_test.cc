// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/base/error.h"
#include "tools/run_bind.h"
#include "tools/run_check.h"
#include "tools/run_hosts.h"
#include "tools/run_protocol.h"
#include "tools/run_remote.h"

namespace echelon::run {
namespace {

using Ranks = std::vector<std::vector<int>>;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "";
}

TEST(Hosts, ListHasSlots) {
  const auto hosts = parse_host_list("a:2, b ,10.0.0.7:3,a:1");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].slots, 3) << "a host named twice has the slots of both";
  EXPECT_EQ(hosts[1].slots, 1);
  EXPECT_EQ(hosts[2].name, "10.0.0.7");
}

TEST(Hosts, FileHasOnePerLine) {
  const auto hosts = parse_hostfile("# ours\n\na slots=4\nb:2 # old\nc\r\n", "hosts.txt");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(hosts[2].name, "c");
}

TEST(Hosts, BadEntriesAreNamed) {
  for (const char* bad : {"", "a,,b", "a:0", "a:x", "a:2x", ":3", "-oProxyCommand=x", "a;b:1"}) {
    EXPECT_NE(error_of([&] { parse_host_list(bad); }).find("expected"), std::string::npos) << bad;
  }
  EXPECT_NE(error_of([] { parse_hostfile("a\nb slot=2\n", "f"); }).find("f line 2"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_hostfile("# none\n", "f"); }).find("no host"), std::string::npos);
}

TEST(Hosts, PlacementFillsOrTakesTurns) {
  const std::vector<HostSlots> hosts = {{"a", 3}, {"b", 1}, {"c", 2}};
  EXPECT_EQ(place(hosts, 0, Placement::kBySlot), (Ranks{{0, 1, 2}, {3}, {4, 5}}));
  EXPECT_EQ(place(hosts, 0, Placement::kByHost), (Ranks{{0, 3, 5}, {1}, {2, 4}}));
  EXPECT_EQ(place(hosts, 2, Placement::kBySlot), (Ranks{{0, 1}, {}, {}}));
  EXPECT_EQ(error_of([&] { place(hosts, 7, Placement::kBySlot); }),
            "7 ranks do not fit the 6 slots of 3 hosts");
}

TEST(Hosts, AbsurdNumbersAreErrors) {
  EXPECT_NE(error_of([] { parse_host_list("a:65536,a:1"); }).find("at most 65536"),
            std::string::npos);
  const auto many = parse_host_list("a:65536,b:65536");
  EXPECT_NE(error_of([&] { place(many, 0, Placement::kBySlot); }).find("at most 65536"),
            std::string::npos);
  EXPECT_EQ(place(many, 2, Placement::kByHost), (Ranks{{0}, {1}}));
  EXPECT_NE(error_of([] { parse_tasks_per_node("1(x65536),1"); }), "");
}

TEST(Slurm, TasksPerNode) {
  EXPECT_EQ(parse_tasks_per_node("4(x2),3"), (std::vector<int>{4, 4, 3}));
  EXPECT_EQ(parse_tasks_per_node(""), std::vector<int>());
  for (const char* bad : {"x", "4(x", "4(x)", "0", "4(x2", "4()"}) {
    EXPECT_NE(error_of([&] { parse_tasks_per_node(bad); }), "") << bad;
  }
}

// What reaches a host, without the program that it starts there.
std::string reached_by(const Options& options) {
  const auto command = remote_agent_command(options, "b");
  EXPECT_GE(command.size(), 4u);
  std::string out;
  for (std::size_t i = 0; i + 3 < command.size(); ++i) out += command[i] + " ";
  return out;
}

TEST(Remote, TheAgentOfAVirtualClusterStandsInForSsh) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_NODEFILE", "ECHELON_RSH"}) unsetenv(name);
  Options options;
  EXPECT_EQ(reached_by(options), "ssh -o BatchMode=yes b ");
  setenv("ECHELON_RSH", "/tmp/rsh", 1);
  EXPECT_EQ(reached_by(options), "/tmp/rsh b ");
  options.ssh_command = "ssh -p 22";
  EXPECT_EQ(reached_by(options), "ssh -p 22 b ");
  unsetenv("ECHELON_RSH");
}

TEST(Bind, SlotsShareTheCoresEvenly) {
  const std::vector<Core> cores = {{0, {0, 4}}, {0, {1, 5}}, {1, {2, 6}}, {1, {3, 7}}};
  using Cpus = std::vector<int>;
  EXPECT_EQ(cpus_of_slot(cores, Bind::kAuto, 0, 2), (Cpus{0, 4, 1, 5}));
  EXPECT_EQ(cpus_of_slot(cores, Bind::kAuto, 2, 3), (Cpus{2, 6, 3, 7}));
  EXPECT_EQ(cpus_of_slot(cores, Bind::kCore, 3, 4), (Cpus{3, 7}));
  EXPECT_EQ(cpus_of_slot(cores, Bind::kAuto, 0, 5), Cpus());
  EXPECT_EQ(cpus_of_slot(cores, Bind::kNone, 0, 1), Cpus());
  EXPECT_EQ(cpus_of_slot(cores, Bind::kSocket, 5, 8), (Cpus{2, 6, 3, 7}));
  EXPECT_EQ(error_of([&] { cpus_of_slot(cores, Bind::kCore, 0, 5); }),
            "--bind core: 5 ranks, but 4 cores; leave --bind out or use --bind none");
}

TEST(Bind, ThisMachineHasCores) { EXPECT_FALSE(cluster::usable_cores().empty()); }

TEST(Bind, VirtualHostsHaveCoresOfTheirOwn) {
  const std::vector<Core> cores = {{0, {0, 4}}, {0, {1, 5}}, {1, {2, 6}}, {1, {3, 7}}};
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(share_cores(cores, {2, 2}), (Shares{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(share_cores(cores, {1, 3}), (Shares{{0, 4}, {1, 5, 2, 6, 3, 7}}));
  EXPECT_EQ(share_cores(cores, {1, 1, 1}), (Shares{{0, 4, 1, 5}, {2, 6}, {3, 7}}));
}

TEST(Bind, CrowdedVirtualHostsShareCoresEvenly) {
  const std::vector<Core> cores = {{0, {0}}, {0, {1}}};
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(share_cores(cores, {2, 2, 2, 2}), (Shares{{0}, {1}, {0}, {1}}));
  EXPECT_EQ(share_cores(cores, {3, 1, 2}), (Shares{{0}, {1}, {1}}));
}

TEST(Check, Programs) {
  EXPECT_EQ(problem_with_program("sh", "/"), "");
  EXPECT_EQ(problem_with_program("bin/sh", "/"), "");
  EXPECT_EQ(problem_with_program("./no-such", "/"), "program ./no-such does not exist");
  EXPECT_EQ(problem_with_program("/etc/passwd", "/"),
            "program /etc/passwd is not an executable file");
  EXPECT_NE(problem_with_program("no-such", "/").find("not on the PATH"), std::string::npos);
}

TEST(Check, InterfacesByNameOrAddress) {
  EXPECT_TRUE(problems_of_this_host({"sh", "/", "lo"}).empty());
  EXPECT_TRUE(problems_of_this_host({"sh", "/", "127.0.0.1"}).empty());
  const auto problems = problems_of_this_host({"no-such", "/", "eth77"});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_NE(problems[1].find("no interface eth77; there are"), std::string::npos);
}

TEST(Protocol, MessagesSurviveAnyCut) {
  const Job job{{"a", "b c"}, "/tmp", {"X=1"}, {0, 3}, Bind::kCore};
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const Fd in(fds[0]), out(fds[1]);
  ASSERT_TRUE(send(out.get(), Frame::kStart, encode(job)));
  ASSERT_TRUE(send(out.get(), Frame::kWantInput, ""));
  char bytes[4096];
  const ssize_t n = read(in.get(), bytes, sizeof bytes);
  ASSERT_GT(n, 0);
  EXPECT_EQ(bytes[n - 1], '\n') << "srun would keep it back";
  MessageReader reader;
  std::vector<Message> got;
  for (ssize_t i = 0; i < n; ++i) {
    reader.feed({bytes + i, 1});
    while (auto message = reader.next()) got.push_back(*message);
  }
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1].kind, Frame::kWantInput);
  const Job back = decode_job(got[0].body);
  EXPECT_EQ(back.argv, job.argv);
  EXPECT_EQ(back.env, job.env);
  EXPECT_EQ(back.ranks, job.ranks);
  EXPECT_EQ(back.bind, job.bind);
}

TEST(Protocol, NonsenseIsAnError) {
  MessageReader reader;
  reader.feed("\xff\xff\xff\xffgarbage");
  EXPECT_NE(error_of([&] { reader.next(); }).find("bytes"), std::string::npos);
  MessageReader without_end;
  without_end.feed(std::string_view("\1\0\0\0\x14no", 7));
  EXPECT_EQ(error_of([&] { without_end.next(); }), "message of 1 bytes without its end");
  const std::string good = encode(Job{{"a"}, "/", {}, {0}, Bind::kAuto});
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_NE(error_of([&] { decode_job(good.substr(0, cut)); }), "") << cut;
  }
  const auto job_error = [](const Job& job) { return error_of([&] { decode_job(encode(job)); }); };
  EXPECT_EQ(job_error({{"a"}, "/", {}, {0, 1}, Bind::kSocket}), "");
  EXPECT_NE(job_error({{}, "/", {}, {0}, Bind::kAuto}), "");
  EXPECT_NE(job_error({{"a"}, "/", {}, {}, Bind::kAuto}), "");
  EXPECT_NE(job_error({{"a"}, "/", {}, {-1}, Bind::kAuto}), "");
  EXPECT_NE(job_error({{"a"}, "/", {}, {0}, static_cast<Bind>(9)}), "");
}

}  // namespace
}  // namespace echelon::run
