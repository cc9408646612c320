// SPDX-License-Identifier: Apache-2.0
// `echelon run` on this machine, as a user sees it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/unit/run/program.h"
#include "tools/cluster/process.h"
#include "tools/run_output.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> sh(std::vector<std::string> options, const std::string& script) {
  options.insert(options.end(), {"--", "sh", "-c", script});
  return options;
}

// Whether a process has this word on its command line.
bool is_running(const std::string& word) { return run_program({"pgrep", "-f", word}).code == 0; }

bool ends_soon(const std::string& word) {
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  while (is_running(word)) {
    if (Clock::now() > deadline) return false;
    usleep(20000);
  }
  return true;
}

// A sleep that no one else has: its length is unique.
std::string unique_sleep() {
  static int count = 0;
  return "sleep 9" + std::to_string(getpid()) + "." + std::to_string(++count);
}

TEST(Launch, RanksGetTheirVariables) {
  const Result r = echelon_run(
      sh({"-n", "2", "--no-tag"},
         "echo $ECHELON_RANK/$ECHELON_SIZE $ECHELON_LOCAL_RANK/$ECHELON_LOCAL_SIZE $ECHELON_ROOT "
         "$ECHELON_SECRET $ECHELON_PROBE"));
  EXPECT_EQ(r.code, 0) << r.err;
  const auto lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_TRUE(matches(lines[0], R"(^0/2 0/2 127\.0\.0\.1:[0-9]+ [0-9a-f]{64} 1$)")) << lines[0];
  EXPECT_EQ(lines[1], "1/2 1/2" + lines[0].substr(7));
}

TEST(Launch, TheSecretIsOnNoCommandLine) {
  const Result r = echelon_run(sh({"-n", "1", "--no-tag"},
                                  "case \"$(cat /proc/[0-9]*/cmdline | tr '\\0' ' ')\" in "
                                  "*$ECHELON_SECRET*) echo seen;; *--agent*) echo safe;; esac"));
  EXPECT_EQ(r.out, "safe\n");
}

TEST(Launch, LinesAreTaggedAndWhole) {
  const Result r = echelon_run(sh({"-n", "4"},
                                  "for i in $(seq 200); do printf aaaa; printf 'bbbb\\n'; done; "
                                  "printf end; echo oops >&2"));
  EXPECT_EQ(r.code, 0);
  const auto lines = lines_of(r.out);
  EXPECT_EQ(lines.size(), 4u * 201);
  for (const std::string& line : lines)
    EXPECT_TRUE(matches(line, R"(^\[[0-3] [^ ]+\] (aaaabbbb|end)$)")) << line;
  EXPECT_EQ(lines_of(r.err).size(), 4u);
}

TEST(Launch, NoTagPassesBytes) {
  std::string input(1 << 20, 'x');
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<char>(i * 7 >> 3);
  const Result r = echelon_run({"-n", "2", "--no-tag", "--", "cat"}, input);
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(r.out == input) << "stdin goes to rank 0 only, and comes back unchanged";
}

TEST(Launch, FirstFailureIsTheExitCode) {
  const auto start = Clock::now();
  const Result r = echelon_run(sh({"-n", "3"}, "[ $ECHELON_RANK = 1 ] && exit 7; sleep 100"));
  EXPECT_EQ(r.code, 7);
  EXPECT_TRUE(matches(r.err, "rank 1 on [^ ]+ \\(pid [0-9]+\\) exited with code 7\n")) << r.err;
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
}

TEST(Launch, SignalsAreNamed) {
  const Result r = echelon_run(sh({"-n", "2"}, "[ $ECHELON_RANK = 1 ] && kill -9 $$; sleep 100"));
  EXPECT_EQ(r.code, 137);
  EXPECT_TRUE(matches(r.err, "rank 1 on [^ ]+ \\(pid [0-9]+\\) was killed by signal 9\n")) << r.err;
}

TEST(Launch, OthersKeepGoingWhenTheyAreMeantTo) {
  const std::string script = "[ $ECHELON_RANK = 1 ] && kill -9 $$; sleep 0.5; echo done; exit ";
  const Result r =
      echelon_run(sh({"-n", "3", "--keep-going", "--no-tag"}, script + "$ECHELON_RANK"));
  EXPECT_EQ(r.code, 0) << "rank 0 has come to a good end";
  EXPECT_EQ(lines_of(r.out), (std::vector<std::string>{"done", "done"}));
  EXPECT_TRUE(matches(r.err, "rank 1 on [^ ]+ \\(pid [0-9]+\\) was killed by signal 9\n")) << r.err;
  EXPECT_TRUE(matches(r.err, "rank 2 on [^ ]+ \\(pid [0-9]+\\) exited with code 2\n")) << r.err;
  EXPECT_EQ(echelon_run(sh({"-n", "3", "--keep-going"}, script + "3")).code, 137)
      << "the first failure's code when nobody comes to a good end";
  EXPECT_EQ(echelon_run(sh({"-n", "2", "--keep-going", "--timeout", "0.3"}, "sleep 100")).code,
            124);
}

TEST(Launch, RanksThatIgnoreSigtermAreKilled) {
  const auto start = Clock::now();
  const Result r = echelon_run(sh(
      {"-n", "2"}, "trap '' TERM; [ $ECHELON_RANK = 1 ] && exit 3; while true; do sleep 1; done"));
  EXPECT_EQ(r.code, 3);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(1900));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));
}

TEST(Launch, TimeoutEndsTheRun) {
  const Result r = echelon_run({"-n", "2", "--timeout", "0.3", "--", "sleep", "100"});
  EXPECT_EQ(r.code, 124);
  EXPECT_NE(r.err.find("--timeout 0.3 s"), std::string::npos);
}

TEST(Launch, InputForARankThatEndsIsNoHarm) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(echelon_run({"-n", "2", "true"}, "unread\n").code, 0);
}

TEST(Launch, ItEndsWhenItsReaderDoes) {
  const Result r = run_program(
      {"bash", "-c", "\"$0\" run -n 2 -- yes | head -1; exit ${PIPESTATUS[0]}", program()});
  EXPECT_EQ(r.code, 128 + SIGPIPE) << r.err;
}

TEST(Launch, ClosedStandardDescriptorsDoNoHarm) {
  const Result r = run_program({"sh", "-c", "\"$0\" run -n 2 -- echo hello <&- 2>&-", program()});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(lines_of(r.out).size(), 2u);
}

TEST(Launch, WhatRanksLeaveBehindIsEnded) {
  const std::string sleeper = unique_sleep();
  EXPECT_EQ(echelon_run(sh({"-n", "1"}, "setsid " + sleeper + " & exit 0")).code, 0);
  EXPECT_TRUE(ends_soon(sleeper));
}

class EndedLauncher : public testing::TestWithParam<int> {};

TEST_P(EndedLauncher, TakesItsRanksAlong) {
  const std::string sleeper = unique_sleep();
  cluster::Command command;
  command.argv = {program(), "run", "-n", "2", "--", "sh", "-c", sleeper + "; true"};
  const pid_t pid = cluster::spawn(command);
  while (!is_running("^" + sleeper)) usleep(10000);
  kill(pid, GetParam());
  EXPECT_EQ(cluster::wait_for(pid), 128 + GetParam());
  EXPECT_TRUE(ends_soon(sleeper));
}

INSTANTIATE_TEST_SUITE_P(Signals, EndedLauncher, testing::Values(SIGINT, SIGTERM, SIGKILL));

TEST(Launch, EnvironmentIsPassed) {
  const Result r = echelon_run(sh({"-n", "1", "--no-tag", "--env", "A=1 2", "--env", "HOME",
                                   "--interface", "lo", "--env", "ECHELON_PROBE=0"},
                                  "echo $A $ECHELON_INTERFACE $ECHELON_PROBE"));
  EXPECT_EQ(r.out, "1 2 lo 0\n") << r.err;
}

TEST(Launch, MistakesAreOneLineAndExitCode2) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"-n", "2"}, "no program given"},
      {{"-n", "2", "no-such-program"}, "program no-such-program is not on the PATH"},
      {{"-n", "2", "--", "/etc/passwd"}, "program /etc/passwd is not an executable file"},
      {{"--frobnicate", "true"}, "unknown option --frobnicate"},
      {{"-n", "0", "true"}, "-n"},
      {{"-n", "5", "-H", "localhost:4", "true"}, "5 ranks do not fit the 4 slots of 1 host"},
      {{"-H", "a:b", "true"}, "expected a slot count"},
      {{"-H", "a", "--emulate", "2x2", "true"}, "--emulate"},
      {{"--emulate", "2y2", "true"}, "position 2"},
      {{"--env", "NOT_SET_HERE", "true"}, "--env NOT_SET_HERE: not set here"},
      {{"--fabric", "/no/such.toml", "true"}, "/no/such.toml"},
      {{"--bind", "left", "true"}, "--bind"},
  };
  for (const auto& [args, expected] : cases) {
    const Result r = echelon_run(args);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find(expected), std::string::npos) << r.err;
    EXPECT_EQ(lines_of(r.err).size(), 1u) << r.err;
    EXPECT_EQ(r.out, "");
  }
}

TEST(Launch, HostsAreCheckedBeforeTheStart) {
  const Result r = echelon_run({"-H", "nowhere.invalid:1,localhost:1", "--launcher", "ssh",
                                "--ssh-command", "sh -c \"exit 9\"", "true"});
  EXPECT_EQ(r.code, 4);
  EXPECT_NE(r.err.find("nowhere.invalid: "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("localhost: "), std::string::npos) << r.err;
  EXPECT_EQ(r.out, "");
}

TEST(Launch, SilentHostsAreNamed) {
  const TempScript silent("#!/bin/sh\nexec sleep 100\n");
  const auto start = Clock::now();
  const Result r = echelon_run(
      {"-H", "a:1", "--ssh-command", silent.path(), "--check-timeout", "0.2", "--", "true"});
  EXPECT_EQ(r.code, 4);
  EXPECT_EQ(r.err, "echelon: a: no answer within 0.2 s\n");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
}

TEST(Launch, OtherVersionsAreRefused) {
  const TempScript other("#!/bin/sh\necho welcome\necho echelon-agent 9.8.7\ncat\n");
  const Result r = echelon_run({"-H", "a:1", "--ssh-command", other.path(), "--", "true"});
  EXPECT_EQ(r.code, 4);
  EXPECT_NE(r.err.find("a: echelon 9.8.7 is installed there, but"), std::string::npos) << r.err;
}

// An agent started by another shell, after a login message, is as good as one of our own.
TEST(Launch, RemoteAgentsGetTheSecretThroughStdin) {
  const TempScript shell(
      "#!/bin/sh\necho Welcome to $1\nshift\nexec env -i PATH=/usr/bin:/bin sh -c \"$*\"\n");
  const Result r = echelon_run(sh({"-H", "a:1,b:1", "--ssh-command", shell.path(), "--env", "X=y"},
                                  "echo $ECHELON_RANK $ECHELON_ROOT $X ${#ECHELON_SECRET}"));
  EXPECT_EQ(r.code, 0) << r.err;
  const auto lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(matches(lines[0], R"(^\[0 a\] 0 a:[0-9]+ y 64$)")) << lines[0];
  EXPECT_TRUE(matches(lines[1], R"(^\[1 b\] 1 a:[0-9]+ y 64$)")) << lines[1];
}

TEST(Launch, MpirunStartsAgents) {
  if (run_program({"sh", "-c", "command -v mpirun"}).code != 0) GTEST_SKIP() << "no mpirun here";
  const Result r =
      echelon_run(sh({"--launcher", "mpirun", "-H", "localhost:2"},
                     "echo ${#ECHELON_SECRET}; [ $ECHELON_RANK = 0 ] || { sleep 1; exit 5; }"));
  EXPECT_EQ(r.code, 5) << r.err;
  EXPECT_EQ(lines_of(r.out), (std::vector<std::string>{"[0 localhost] 64", "[1 localhost] 64"}));
}

TEST(Launch, HelpAndVersion) {
  EXPECT_TRUE(
      matches(run_program({program(), "--version"}).out, "^echelon [0-9]+\\.[0-9]+\\.[0-9]+\n$"));
  const Result help = run_program({program(), "run", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("--emulate"), std::string::npos);
  EXPECT_NE(help.out.find("examples:"), std::string::npos);
}

TEST(LineWriter, KeepsLinesWhole) {
  cluster::Pipe pipe = cluster::make_pipe();
  run::LineWriter writer(pipe.write.get(), "[1 a] ", true);
  writer.write("x");
  writer.write("y\nz\n\nlast");
  writer.finish();
  writer.finish();
  char bytes[256];
  const ssize_t n = read(pipe.read.get(), bytes, sizeof bytes);
  EXPECT_EQ(std::string(bytes, static_cast<std::size_t>(n)),
            "[1 a] xy\n[1 a] z\n[1 a] \n[1 a] last\n");
}

}  // namespace
}  // namespace echelon::test
