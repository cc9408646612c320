// SPDX-License-Identifier: Apache-2.0
// The example that goes on when a rank dies, run as a user would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/run/program.h"

namespace echelon::test {
namespace {

class Example : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Victim, Example, testing::Values(0, 2));

TEST_P(Example, GoesOnWithTheOthers) {
  const Result r = run_program({program(), "run", "--keep-going", "--no-tag", "-n", "4", "--",
                                std::getenv("ECHELON_EXAMPLE"), std::to_string(GetParam())},
                               "", std::chrono::seconds(40));
  EXPECT_EQ(r.code, 0) << r.err;
  std::vector<std::string> wanted;
  for (int step = 0; step < 6; ++step)
    for (int rank = 0; rank < (step < 3 ? 4 : 3); ++rank)
      wanted.push_back(fmt::format("step {} on {} ranks: 499500", step, step < 3 ? 4 : 3));
  // The victim's lines may die with it, in its buffer.
  std::vector<std::string> lines = lines_of(r.out);
  EXPECT_GE(lines.size(), wanted.size() - 3) << r.out;
  EXPECT_TRUE(std::includes(wanted.begin(), wanted.end(), lines.begin(), lines.end())) << r.out;
  const std::string death = fmt::format("rank {} on ", GetParam());
  EXPECT_NE(r.err.find(death), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("killed by signal 9"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace echelon::test
