// SPDX-License-Identifier: Apache-2.0
// `echelon run` on this machine, as a user sees it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

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
  const Result r = echelon_run(sh({"-n", "4", "--tag-output"},
                                  "for i in $(seq 200); do printf aaaa; printf 'bbbb\\n'; done; "
                                  "printf end; echo oops >&2"));
  EXPECT_EQ(r.code, 0);
  const auto lines = lines_of(r.out);
  EXPECT_EQ(lines.size(), 4u * 201);
  for (const std::string& line : lines)
    EXPECT_TRUE(matches(line, R"(^\[[0-3] [^ ]+\] (aaaabbbb|end)$)")) << line;
  EXPECT_EQ(lines_of(r.err).size(), 4u);
}

// What goes to a file is what the ranks wrote: JSON stays JSON.
TEST(Launch, LinesInAFileAreWholeAndHaveNoTag) {
  const Result r = echelon_run(sh({"-n", "4"},
                                  "for i in $(seq 200); do printf '{'; printf '}\\n'; done; "
                                  "printf '[]'; echo oops >&2"));
  EXPECT_EQ(r.code, 0);
  for (const std::string& line : lines_of(r.out))
    EXPECT_TRUE(matches(line, R"(^(\[\])*(\{\})?$)")) << line;
  EXPECT_EQ(r.err, "oops\noops\noops\noops\n");
}

TEST(Launch, LinesOnATerminalAreTagged) {
  const Result r =
      run_program({"script", "-qec",
                   "\"" + program() + "\" run -n 2 -- sh -c 'echo seen 2>/dev/null'", "/dev/null"});
  EXPECT_EQ(r.code, 0) << r.out;
  const auto lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 2u) << r.out;
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(
        matches(lines[static_cast<std::size_t>(i)], "^\\[" + std::to_string(i) + " [^ ]+\\] seen"))
        << r.out;
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
  const std::string set = testing::TempDir() + "trap-" + std::to_string(getpid());
  const auto start = Clock::now();
  const Result r =
      echelon_run(sh({"-n", "2"}, "if [ $ECHELON_RANK = 1 ]; then until [ -e " + set +
                                      " ]; do sleep 0.01; done; exit 3; fi; trap '' TERM; : > " +
                                      set + "; while true; do sleep 1; done"));
  std::filesystem::remove(set);
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

// A launcher whose stdout nobody reads, as under a pager.
class StalledOutput : public testing::Test {
 protected:
  pid_t start(std::vector<std::string> options) {
    cluster::Command command;
    command.argv = sh(std::move(options), "echo $$ >&2; exec yes");
    command.argv.insert(command.argv.begin(), {program(), "run"});
    command.out = pipe_.write.get();
    command.err = said_.get();
    const pid_t pid = cluster::spawn(command);
    pipe_.write = Fd();
    int there = 0, before = -1;
    while (ioctl(pipe_.read.get(), FIONREAD, &there) == 0 && (there == 0 || there != before)) {
      before = there;
      usleep(300000);
    }
    return pid;
  }

  cluster::Pipe pipe_ = cluster::make_pipe();
  Fd said_ = cluster::text_file("");
};

TEST_F(StalledOutput, DoesNotKeepSignalsAway) {
  const pid_t pid = start({"-n", "2"});
  const auto start = Clock::now();
  kill(pid, SIGTERM);
  EXPECT_EQ(cluster::wait_for(pid), 128 + SIGTERM);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(8));
}

TEST_F(StalledOutput, DoesNotKeepTheTimeoutAway) {
  EXPECT_EQ(cluster::wait_for(start({"-n", "1", "--timeout", "1"})), 124);
}

// Neither is anything lost when somebody reads again.
TEST_F(StalledOutput, IsKeptUntilSomebodyReads) {
  cluster::Command command;
  command.argv = sh({"-n", "2", "--no-tag"}, "head -c 3000000 /dev/zero");
  command.argv.insert(command.argv.begin(), {program(), "run"});
  command.out = pipe_.write.get();
  const pid_t pid = cluster::spawn(command);
  pipe_.write = Fd();
  usleep(500000);
  std::size_t total = 0;
  char buffer[65536];
  for (ssize_t n = 0; (n = read(pipe_.read.get(), buffer, sizeof buffer)) > 0;)
    total += static_cast<std::size_t>(n);
  EXPECT_EQ(total, 6000000u);
  EXPECT_EQ(cluster::wait_for(pid), 0);
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

// A shell would pass on the last of two, and a program sees the first.
TEST(Launch, WhatIsGivenTakesThePlaceOfADefault) {
  const Result r = echelon_run({"-n", "1", "--no-tag", "--env", "ECHELON_PROBE=0", "--", "env"});
  EXPECT_NE(r.out.find("ECHELON_PROBE=0\n"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("ECHELON_PROBE=1"), std::string::npos) << r.out;
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
  const Result r = echelon_run(
      sh({"-H", "a:1,b:1", "--tag-output", "--ssh-command", shell.path(), "--env", "X=y"},
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
      echelon_run(sh({"--launcher", "mpirun", "--tag-output", "-H", "localhost:2"},
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

std::string written(run::Lines lines) {
  cluster::Pipe pipe = cluster::make_pipe();
  run::OutputQueue queue(pipe.write.get());
  run::LineWriter writer(queue, "[1 a] ", lines);
  writer.write("x");
  writer.write("y\nz\n\nlast");
  writer.finish();
  writer.finish();
  char bytes[256];
  const ssize_t n = read(pipe.read.get(), bytes, sizeof bytes);
  return {bytes, static_cast<std::size_t>(n)};
}

TEST(LineWriter, KeepsLinesWhole) {
  EXPECT_EQ(written(run::Lines::kTagged), "[1 a] xy\n[1 a] z\n[1 a] \n[1 a] last\n");
  EXPECT_EQ(written(run::Lines::kWhole), "xy\nz\n\nlast");
}

TEST(OutputQueue, NeverWaits) {
  cluster::Pipe pipe = cluster::make_pipe();
  run::OutputQueue queue(pipe.write.get());
  const std::string line(99, 'x');
  for (int i = 0; i < 60000; ++i) queue.push(line + "\n");
  EXPECT_TRUE(queue.full());
  std::string all;
  char bytes[8192];
  while (!queue.empty()) {
    const ssize_t n = read(pipe.read.get(), bytes, sizeof bytes);
    all.append(bytes, static_cast<std::size_t>(n));
    queue.flush();
  }
  pipe.write = Fd();
  for (ssize_t n = 0; (n = read(pipe.read.get(), bytes, sizeof bytes)) > 0;)
    all.append(bytes, static_cast<std::size_t>(n));
  EXPECT_EQ(all.size(), 6000000u);
  EXPECT_FALSE(queue.broken());
  EXPECT_EQ(all.substr(5999900), line + "\n");
}

TEST(OutputQueue, KnowsThatItsReaderHasLeft) {
  signal(SIGPIPE, SIG_IGN);
  cluster::Pipe pipe = cluster::make_pipe();
  run::OutputQueue queue(pipe.write.get());
  pipe.read = Fd();
  queue.push("x");
  EXPECT_TRUE(queue.broken());
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace echelon::test
