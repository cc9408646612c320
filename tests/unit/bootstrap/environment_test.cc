// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/environment.h"

#include <map>

#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> read(const Variables& variables) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void expect_invalid(const Variables& variables, const std::vector<std::string>& words) {
  test::expect_error(ECH_ERR_INVALID, words, test::milliseconds(100), [&] { read(variables); });
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const std::string kHex(64, 'a');
const Variables kEchelon = {{"ECHELON_RANK", "3"},
                            {"ECHELON_SIZE", "8"},
                            {"ECHELON_ROOT", "n1:4242"},
                            {"ECHELON_SECRET", kHex}};
const Variables kTorch = {{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"MASTER_ADDR", "n0"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "job"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Variables kSlurm = {{"SLURM_PROCID", "1"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_JOB_ID", "123456"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "n[08-09],m3"}};

TEST(Environment, NothingIsNothing) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"ECHELON_ROOT", "n1:1"}, {"ECHELON_SECRET", kHex}, {"MASTER_ADDR", "n0"}}));
  EXPECT_FALSE(read({{"RANK", ""}, {"WORLD_SIZE", ""}}));
}

TEST(Environment, EchelonRun) {
  const auto launch = read(kEchelon);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "echelon run");
  EXPECT_EQ(launch->identity.rank, 3);
  EXPECT_EQ(launch->identity.size, 8);
  EXPECT_EQ(launch->identity.host, "n1");
  EXPECT_EQ(launch->identity.port, 4242);
  EXPECT_EQ(hex(launch->identity.secret), kHex);
  EXPECT_EQ(read(with(kEchelon, "ECHELON_ROOT", "[fd00::1]:9"))->identity.host, "fd00::1");
}

TEST(Environment, OneRankNeedsNoMeetingPoint) {
  EXPECT_EQ(read({{"ECHELON_RANK", "0"}, {"ECHELON_SIZE", "1"}})->identity.size, 1);
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->identity.size, 1);
}

TEST(Environment, Torchrun) {
  const auto launch = read(kTorch);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "torchrun");
  EXPECT_EQ(launch->identity.rank, 5);
  EXPECT_EQ(launch->identity.host, "n0");
  EXPECT_EQ(launch->identity.port, 16000 + 29501 % 8000);
  EXPECT_EQ(read(with(kTorch, "ECHELON_PORT", "77"))->identity.port, 77);
}

TEST(Environment, TorchrunPortIsNeverTheMasters) {
  for (int port = 1; port < 65536; ++port)
    ASSERT_NE(read(with(kTorch, "MASTER_PORT", std::to_string(port)))->identity.port, port);
}

TEST(Environment, TorchrunJobsAndRestartsHaveSecretsOfTheirOwn) {
  const Secret secret = read(kTorch)->identity.secret;
  EXPECT_EQ(read(with(kTorch, "RANK", "0"))->identity.secret, secret);
  EXPECT_NE(read(with(kTorch, "TORCHELASTIC_RUN_ID", "other"))->identity.secret, secret);
  EXPECT_NE(read(with(kTorch, "TORCHELASTIC_RESTART_COUNT", "1"))->identity.secret, secret);
  EXPECT_NE(read(with(kTorch, "MASTER_PORT", "29501"))->identity.secret, secret);
  EXPECT_EQ(hex(read(with(kTorch, "ECHELON_SECRET", kHex))->identity.secret), kHex);
}

TEST(Environment, OpenMpiNeedsPmixOrARoot) {
  const auto launch = read(kOpenMpi);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "Open MPI");
  EXPECT_EQ(launch->identity.rank, 2);
  EXPECT_EQ(launch->identity.host, "");
  EXPECT_EQ(read(with(kOpenMpi, "ECHELON_ROOT", "n7:1"))->identity.host, "n7");
}

TEST(Environment, Slurm) {
  const auto launch = read(kSlurm);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "Slurm");
  EXPECT_EQ(launch->identity.rank, 1);
  EXPECT_EQ(launch->identity.size, 4);
  EXPECT_EQ(launch->identity.host, "n08");
  EXPECT_EQ(launch->identity.port, 24000 + 123456 % 8000);
  const auto second = read(with(kSlurm, "SLURM_STEP_ID", "1"));
  EXPECT_NE(second->identity.port, launch->identity.port);
  EXPECT_NE(second->identity.secret, launch->identity.secret);
  EXPECT_EQ(read(with(kSlurm, "SLURM_STEP_NUM_TASKS", "2"))->identity.size, 2);
}

TEST(Environment, SlurmBatchScriptsAndShellsAreNotRanks) {
  EXPECT_FALSE(read(without(kSlurm, "SLURM_STEP_ID")));
  EXPECT_FALSE(read(without(kSlurm, "SLURM_PROCID")));
  EXPECT_FALSE(read(with(kSlurm, "SLURM_STEP_ID", "4294967291")));
}

TEST(Environment, SlurmHostLists) {
  EXPECT_EQ(first_slurm_host("n1"), "n1");
  EXPECT_EQ(first_slurm_host("n1,n2"), "n1");
  EXPECT_EQ(first_slurm_host("n[1,3-5]"), "n1");
  EXPECT_EQ(first_slurm_host("n[08-11,15],m3"), "n08");
  EXPECT_EQ(first_slurm_host("n[08-11]-ib,m3"), "n08-ib");
  EXPECT_EQ(first_slurm_host("rack[1-2]n[03-08]"), "rack1n03");
  EXPECT_EQ(first_slurm_host("a-b[7]"), "a-b7");
  for (const char* bad : {"", ",n1", "n[", "n[]", "n[1-2"})
    EXPECT_THROW(first_slurm_host(bad), Error) << bad;
}

TEST(Environment, OrderOfLaunchers) {
  Variables all = kSlurm;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(read(all)->launcher, "Open MPI");
  all.insert(kTorch.begin(), kTorch.end());
  EXPECT_EQ(read(all)->launcher, "torchrun");
  all.insert(kEchelon.begin(), kEchelon.end());
  EXPECT_EQ(read(all)->launcher, "echelon run");
}

TEST(Environment, MissingHalvesAreNamed) {
  for (const char* name : {"ECHELON_RANK", "ECHELON_SIZE", "ECHELON_ROOT", "ECHELON_SECRET"})
    expect_invalid(without(kEchelon, name), {name, "not set"});
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    expect_invalid(without(kTorch, name), {name, "not set"});
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})
    expect_invalid(without(kOpenMpi, name), {name, "not set"});
  for (const char* name : {"SLURM_NTASKS", "SLURM_JOB_ID"})
    expect_invalid(without(kSlurm, name), {name, "not set"});
}

TEST(Environment, WrongValuesAreNamedAndShown) {
  expect_invalid(with(kEchelon, "ECHELON_RANK", "8"), {"ECHELON_RANK=8", "ECHELON_SIZE=8"});
  expect_invalid(with(kEchelon, "ECHELON_RANK", "-1"), {"ECHELON_RANK=\"-1\""});
  expect_invalid(with(kEchelon, "ECHELON_RANK", "3x"), {"ECHELON_RANK=\"3x\""});
  expect_invalid(with(kEchelon, "ECHELON_SIZE", "99999999999999999999"), {"ECHELON_SIZE"});
  expect_invalid(with(kEchelon, "ECHELON_SIZE", "0"), {"ECHELON_SIZE=\"0\""});
  expect_invalid(with(kEchelon, "ECHELON_SECRET", "secret"), {"ECHELON_SECRET", "64"});
  for (const char* bad : {"n1", "n1:", ":1", "n1:0", "n1:65536", "n1:1x", "fd00::1:5", "[]:1"})
    expect_invalid(with(kEchelon, "ECHELON_ROOT", bad), {"ECHELON_ROOT", bad});
  expect_invalid(with(kTorch, "MASTER_PORT", "70000"), {"MASTER_PORT=\"70000\""});
  expect_invalid(with(kTorch, "ECHELON_PORT", "no"), {"ECHELON_PORT=\"no\""});
  expect_invalid(with(kSlurm, "SLURM_STEP_NODELIST", "n["), {"n["});
}

}  // namespace
}  // namespace echelon
