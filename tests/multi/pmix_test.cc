// SPDX-License-Identifier: Apache-2.0
// Finding the other ranks by PMIx, under the machine's own mpirun.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string rank_program;

struct Result {
  int status;
  std::string output;
};

Result shell(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  Result result{-1, {}};
  if (pipe == nullptr) return result;
  char line[512];
  while (fgets(line, sizeof line, pipe) != nullptr) result.output += line;
  result.status = pclose(pipe);
  return result;
}

// Variables of a launcher around this test must not reach the ranks.
const std::string kClean =
    "env -u ECHELON_RANK -u ECHELON_SIZE -u ECHELON_ROOT -u RANK -u WORLD_SIZE ";

// Of finding each other. When PMIx was finalized after each, about one in 50 failed.
constexpr int kRounds = 50;

Result run_ranks(int n, const std::string& mode, const std::string& more = "") {
  const std::string root = geteuid() == 0 ? "--allow-run-as-root " : "";
  return shell(kClean + "timeout 30 mpirun " + root + "--oversubscribe -n " + std::to_string(n) +
               " '" + rank_program + "' " + mode + " " + std::to_string(kRounds) + " " + more);
}

bool has_mpirun() { return shell("mpirun --version").status == 0; }

TEST(Pmix, FourRanksUnderMpirun) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  for (const char* mode : {"pmix", "auto"}) {
    const Result result = run_ranks(4, mode);
    EXPECT_EQ(result.status, 0) << result.output;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string line = std::to_string(rank) + " of 4 by PMIx, all 0123\n";
      EXPECT_NE(result.output.find(line), std::string::npos) << line << "is not in:\n"
                                                             << result.output;
    }
  }
}

TEST(Pmix, OneRankUnderMpirun) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  const Result result = run_ranks(1, "pmix");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("0 of 1 by PMIx"), std::string::npos) << result.output;
}

// It says so and ends at once: it has no thread that could hear the server.
TEST(Pmix, AForkIsRefused) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  const Result result = run_ranks(1, "pmix", "fork");
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* said : {"0 of 1 by PMIx", "status -2: PMIx knows the process that forked"})
    EXPECT_NE(result.output.find(said), std::string::npos) << result.output;
}

TEST(Pmix, WithoutALauncher) {
  const std::string bare = kClean + "-u PMIX_RANK -u PMIX_NAMESPACE '" + rank_program + "' ";
  const Result alone = shell(bare + "auto 1");
  EXPECT_EQ(alone.status, 0);
  EXPECT_NE(alone.output.find("0 of 1 by alone"), std::string::npos) << alone.output;
  const Result asked = shell(bare + "pmix 1");
  EXPECT_EQ(WEXITSTATUS(asked.status), 1);
  EXPECT_NE(asked.output.find("status -2: PMIx"), std::string::npos) << asked.output;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  rank_program = argv[argc - 1];
  return RUN_ALL_TESTS();
}
