// SPDX-License-Identifier: Apache-2.0
// Settings that ranks cannot use: what a user is told, by the ranks of `echelon perf`.
#include <gtest/gtest.h>

#include "tests/unit/run/program.h"

namespace echelon::test {
namespace {

// perf on two ranks, with variables and options in front of its own.
Result perf(std::vector<std::string> variables, std::vector<std::string> options = {}) {
  std::vector<std::string> argv = {"env"};
  argv.insert(argv.end(), variables.begin(), variables.end());
  argv.insert(argv.end(), {program(), "run", "-n", "2", "--", program(), "perf", "-e", "8"});
  argv.insert(argv.end(), options.begin(), options.end());
  return run_program(argv);
}

struct Wrong {
  std::vector<std::string> variables;
  std::string said;
};

class WrongSetting : public testing::TestWithParam<Wrong> {};

TEST_P(WrongSetting, IsNamed) {
  const Result r = perf(GetParam().variables, {"-n", "1"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find(GetParam().said), std::string::npos) << r.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongSetting,
    testing::Values(Wrong{{"ECHELON_NICS=eth77", "ECHELON_ALGORITHM=ring"},
                          "ECHELON_NICS names \"eth77\"; this host has "},
                    Wrong{{"ECHELON_ALGORITHM=foo"}, "ECHELON_ALGORITHM: plan \"foo\""},
                    Wrong{{"ECHELON_FABRIC=nope.toml"},
                          "fabric file (of ECHELON_FABRIC or options.fabric_file): nope.toml"},
                    Wrong{{"ECHELON_FABRIC=/dev/null", "ECHELON_TIMEOUT=0"}, "seconds > 0"}));

TEST(Slip, IsWarnedOfOnce) {
  const Result r = perf({"ECHELON_ALGORITM=ring", "ECHELON_OF_SOMEBODY_ELSE=1"}, {"-n", "1"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(
      r.err,
      "echelon: ECHELON_ALGORITM is set, but nothing reads it: is ECHELON_ALGORITHM meant?\n");
}

}  // namespace
}  // namespace echelon::test
