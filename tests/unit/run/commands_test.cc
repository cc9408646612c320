// SPDX-License-Identifier: Apache-2.0
// What the echelon program says of command lines that it cannot use, and in its help.
#include <gtest/gtest.h>

#include "tests/unit/run/program.h"

namespace echelon::test {
namespace {

using Words = std::vector<std::string>;

Result echelon(Words words) {
  words.insert(words.begin(), program());
  return run_program(words);
}

struct Mistake {
  Words words;
  Words said;
};

class Mistaken : public testing::TestWithParam<Mistake> {};

TEST_P(Mistaken, IsOneLineThatNamesItAndWhatThereIs) {
  const Result r = echelon(GetParam().words);
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(lines_of(r.err).size(), 1u) << r.err;
  for (const std::string& part : GetParam().said)
    EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
}

const std::string kCommands = "doctor, perf, plan, run, topo, tune";
const std::string kCollectives = "allreduce, reduce_scatter, allgather, broadcast, reduce, barrier";
const std::string kFile = "fabrics/no-such.toml";

INSTANTIATE_TEST_SUITE_P(
    Commands, Mistaken,
    testing::Values(Mistake{{}, {"echelon: no command", kCommands}},
                    Mistake{{"runn"}, {"unknown command \"runn\"", kCommands}},
                    Mistake{{"-n", "3"}, {"a command comes first, not \"-n\"", kCommands}},
                    Mistake{{"plan", "--fabric", kFile}, {"echelon plan: ", kFile}},
                    Mistake{{"topo", "--file", kFile}, {"echelon topo: ", kFile}},
                    Mistake{{"topo", "-n", "-3"}, {"-n,--ranks", "\"-3\"", "0 to 1048576"}},
                    Mistake{{"topo", "--format", "xml"}, {"\"xml\"", "text, json, toml"}},
                    Mistake{{"doctor", "--hostfile", kFile}, {"--hostfile", kFile}},
                    Mistake{{"doctor", "--launcher", "rsh"}, {"\"rsh\"", "ssh, mpirun, srun"}}));

INSTANTIATE_TEST_SUITE_P(
    Run, Mistaken,
    testing::Values(Mistake{{"run", "-np", "4", "true"}, {"echelon run: ", "-np", "-n N"}},
                    Mistake{{"run", "-n", "many", "true"}, {"\"many\"", "1 to 65536"}},
                    Mistake{{"run", "--bind", "foo", "true"}, {"--bind", "none, core, socket"}},
                    Mistake{{"run", "--map-by", "foo", "true"}, {"--map-by", "slot, host"}},
                    Mistake{{"run", "--timeout", "0", "true"}, {"--timeout", "\"0\"", "> 0"}},
                    Mistake{{"run", "--check-timeout", "soon", "true"}, {"\"soon\"", "> 0"}},
                    Mistake{{"run", "--env", "1=2", "true"}, {"--env 1=2", "NAME=VALUE"}},
                    Mistake{{"run", "--env", "=2", "true"}, {"--env =2", "NAME=VALUE"}}));

const std::string kFabric = "--fabric=/dev/null";

INSTANTIATE_TEST_SUITE_P(
    PlanAndPerf, Mistaken,
    testing::Values(Mistake{{"plan", kFabric, "-d", "f8"}, {"\"f8\"", "i8, u8", "bf16"}},
                    Mistake{{"plan", kFabric, "-C", "foo"}, {"\"foo\"", kCollectives}},
                    Mistake{{"plan", kFabric, "-C", "all"}, {"one of " + kCollectives}},
                    Mistake{{"plan", kFabric, "-b", "x"}, {"\"x\"", "64K"}},
                    Mistake{{"perf", "-d", "f8"}, {"echelon perf: ", "-d,--datatype", "bf16"}},
                    Mistake{{"perf", "--format", "xml"}, {"\"xml\"", "text, json, csv, osu"}}));

const std::string kNeeds = "needs --device cuda";

INSTANTIATE_TEST_SUITE_P(
    PerfOnGpus, Mistaken,
    testing::Values(Mistake{{"perf", "--device", "gpu"}, {"--device", "\"gpu\"", "host, cuda"}},
                    Mistake{{"perf", "--stream"}, {"echelon perf: --stream: ", kNeeds}},
                    Mistake{{"perf", "--vs", "nccl"}, {"echelon perf: --vs nccl: ", kNeeds}},
                    Mistake{{"perf", "--device", "cuda", "--vs", "mpi"}, {"--vs", "nccl"}},
                    Mistake{{"perf", "--device", "cuda", "--vs", "nccl", "-C", "reduce"},
                            {"--vs nccl", "allreduce and nothing else"}},
                    Mistake{{"perf", "--device", "cuda", "--vs", "nccl", "--check"}, {"--check"}},
                    Mistake{{"perf", "--device", "cuda", "--vs", "nccl", "--format", "osu"},
                            {"--vs nccl", "osu"}}));

TEST(Options, TheLastOfTwoCounts) {
  const Result r = echelon({"perf", "-e", "64", "-e", "8", "--format", "csv"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines_of(r.out).size(), 2u) << r.out;
}

TEST(Options, PlanAndPerfHaveTheSameNames) {
  for (const char* name : {"--datatype", "--dtype"}) {
    EXPECT_EQ(echelon({"plan", kFabric, "-e", "8", name, "f64"}).code, 0) << name;
    EXPECT_EQ(echelon({"perf", "-e", "8", name, "f64"}).code, 0) << name;
  }
}

TEST(Help, ListsTheWords) {
  for (const char* command : {"perf", "plan"}) {
    const Result r = echelon({command, "--help"});
    std::string text;  // without the breaks of lines
    for (const char c : r.out)
      if (c != '\n' && (c != ' ' || text.empty() || text.back() != ' ')) text += c;
    EXPECT_NE(text.find(kCollectives), std::string::npos) << r.out;
    EXPECT_NE(text.find("f16, bf16, f32, f64"), std::string::npos) << r.out;
  }
  EXPECT_NE(echelon({"perf", "--help"}).out.find("sum, prod, min, max, avg"), std::string::npos);
  EXPECT_NE(echelon({"topo", "--help"}).out.find("examples:\n  echelon topo"), std::string::npos);
  const std::string help = echelon({"run", "--help"}).out;
  EXPECT_NE(help.find("  --traffic[=FILE] "), std::string::npos);
  EXPECT_NE(help.find("  --tag-output   "), std::string::npos);
  EXPECT_EQ(help.find('{'), std::string::npos);
}

TEST(Run, NicsAreASettingOfEveryRank) {
  const Result r = echelon_run(
      {"-n", "2", "--nics", "eth0,eth1", "--", "sh", "-c", "echo $ECHELON_RANK $ECHELON_NICS"});
  EXPECT_EQ(lines_of(r.out), (Words{"0 eth0,eth1", "1 eth0,eth1"})) << r.err;
}

}  // namespace
}  // namespace echelon::test
