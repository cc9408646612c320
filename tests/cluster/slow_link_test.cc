// SPDX-License-Identifier: Apache-2.0
// A host whose link is a fifth of what the fabric file says: it is found, told once, and all ranks
// plan with what was measured, from the same operation on. And a late rank is no slow link.
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/cluster/virtual_cluster.h"
#include "tests/support/json_lines.h"

namespace echelon::test {
namespace {

constexpr int kRanks = 8;
constexpr std::size_t kBytes = 16 << 20;
constexpr int kPerPeriod = 4;  // of that size
constexpr int kMost = 40;      // periods in which other programs have the cores do not count
constexpr double kSaid = 1e9 / 8 * 0.956;

class SlowLink : public OnCluster {
 protected:
  void run(const std::string& spec, int iterations, int late) {
    result_ =
        run_program({program(), "run", "--emulate", spec, "--no-tag", "--env", "ECHELON_LOG=info",
                     "--", std::getenv("ECHELON_SLOW_LINK_RANK"), std::to_string(kBytes),
                     std::to_string(iterations), std::to_string(late)},
                    "", std::chrono::seconds(200));
    ASSERT_EQ(result_.code, 0) << result_.err;
    ranks_ = json_lines(result_.out);
    ASSERT_EQ(ranks_.size(), std::size_t{kRanks});
    for (const auto& rank : ranks_) EXPECT_EQ(rank.at("wrong"), 0) << rank;
  }

  // What was logged about slow links, from "the link" on.
  std::multiset<std::string> reports() const {
    std::multiset<std::string> all;
    std::istringstream err(result_.err);
    for (std::string line; std::getline(err, line);)
      if (const auto at = line.find("the link from host"); at != line.npos)
        all.insert(line.substr(at));
    return all;
  }

  Result result_;
  std::vector<nlohmann::json> ranks_;
};

TEST_F(SlowLink, IsReportedOnceAndPlannedWithOnAllRanksAlike) {
  run("4x2:1gbit,host2=200mbit", kMost, -1);
  const auto lines = reports();
  if (lines.empty() && ranks_[0].at("slowest_from") == -1)
    GTEST_SKIP() << "other programs had the cores all the time: nothing can be measured";
  ASSERT_EQ(lines.size(), std::size_t{kRanks}) << result_.err;
  EXPECT_EQ(lines.count(*lines.begin()), std::size_t{kRanks}) << "all ranks say the same";
  EXPECT_TRUE(matches(*lines.begin(), "for the link of host2, from operation #[0-9]+ on$"))
      << *lines.begin();
  for (const auto& rank : ranks_) {
    const int ran = rank.at("ran");
    EXPECT_GE(ran, 3 * kPerPeriod + 1);
    EXPECT_EQ(ran, ranks_[0].at("ran"));
    ASSERT_EQ(rank.at("changes"), nlohmann::json::array({ran - 1})) << rank;
    // What lies in the sockets' buffers counts as sent: on a busy machine links seem faster.
    EXPECT_GT(rank.at("factor"), 2) << rank;
    EXPECT_LT(rank.at("factor"), 8) << rank;
    EXPECT_EQ(rank.at("replans"), 1);
    EXPECT_LT(rank.at("throughputs")[2], 0.5 * kSaid) << rank;
    EXPECT_GT(rank.at("throughputs")[0], 0.5 * kSaid) << rank;
    const bool host2 = rank.at("slowest_from") == 2 || rank.at("slowest_to") == 2;
    EXPECT_TRUE(host2) << rank;
    EXPECT_NE(rank.at("fabric").get<std::string>().find("(measured)"), std::string::npos) << rank;
  }
}

TEST_F(SlowLink, IsShownByPerfAndWarnedOfOnce) {
  result_ = run_program(
      {program(), "run", "--emulate", "2x1:1gbit,host1=200mbit", "--no-tag", "--", program(),
       "perf", "-b", "16M", "-e", "16M", "-n", "24", "--time-limit", "0", "-w", "0", "--stats"},
      "", std::chrono::seconds(200));
  ASSERT_EQ(result_.code, 0) << result_.err;
  EXPECT_TRUE(matches(result_.out, "# stats of the last period: [0-9]+ operations timed; rank"))
      << result_.out;
  if (reports().empty() && result_.out.find("slowest link") == std::string::npos)
    GTEST_SKIP() << "other programs had the cores all the time: nothing can be measured";
  EXPECT_EQ(reports().size(), 1u) << result_.err;
  EXPECT_TRUE(matches(result_.out, "# slowest link: host [01] to host [01], [0-9.]+ MB/s"))
      << result_.out;
  EXPECT_TRUE(matches(result_.out, "# plans were made again for slow links: 1 x")) << result_.out;
}

TEST_F(SlowLink, IsNotWhatALateRankLooksLike) {
  constexpr int kLate = 3;
  run("4x2:1gbit", 4 * kPerPeriod + 2, kLate);
  EXPECT_TRUE(reports().empty()) << result_.err;
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank.at("slowest_rank"), kLate) << rank;
    EXPECT_GT(rank.at("lateness"), 0.05) << rank;
    EXPECT_EQ(rank.at("replans"), 0);
    EXPECT_EQ(rank.at("changes"), nlohmann::json::array());
    if (rank.at("slowest_from") == -1) continue;  // other programs had the cores
    EXPECT_NEAR(rank.at("assumed"), kSaid, 0.01 * kSaid);
  }
}

}  // namespace
}  // namespace echelon::test
