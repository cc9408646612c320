// SPDX-License-Identifier: Apache-2.0
// The example that goes on when a rank dies, run as a user would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
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
  // Steps 3 to 5 are of the survivors. When some of them had step 2 and others not, they take it
  // again. The victim's lines may die with it, in its buffer.
  std::map<std::string, int> seen;
  for (const std::string& line : lines_of(r.out)) ++seen[line];
  const auto line = [](int step, int ranks) {
    return fmt::format("step {} on {} ranks: 499500", step, ranks);
  };
  for (int step = 3; step < 6; ++step) EXPECT_EQ(seen[line(step, 3)], 3) << r.out;
  EXPECT_GE(seen[line(2, 3)] + seen[line(2, 4)], 3) << r.out;
  for (const auto& [text, times] : seen)
    EXPECT_TRUE(times <= 4 && (matches(text, "step [012] on 4 ranks: 499500") ||
                               matches(text, "step [2345] on 3 ranks: 499500")))
        << r.out;
  const std::string death = fmt::format("rank {} on ", GetParam());
  EXPECT_NE(r.err.find(death), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("killed by signal 9"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace echelon::test
