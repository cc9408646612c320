// SPDX-License-Identifier: Apache-2.0
// A host whose link is a fifth of what the fabric file says: it is found, told once, and all ranks
// plan with what was measured, from the same operation on. And a late rank is no slow link.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
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

// Seconds of processor time so far, from /proc/stat: all programs' and what the machine below took.
// Interrupts, which move the virtual cluster's packets, are not among them.
double busy_so_far() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  file >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  return (user + nice + system + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

// Of the programs that this one has run.
double own_so_far() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class SlowLink : public OnCluster {
 protected:
  // Whether others had more than a tenth of the processors since the test began. Where they had
  // not, there is no excuse for having measured nothing.
  bool others_had_the_cores() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    const double others = busy_so_far() - busy_before_ - (own_so_far() - own_before_);
    return others > 0.1 * passed.count() * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  }

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

  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const double busy_before_ = busy_so_far(), own_before_ = own_so_far();
  Result result_;
  std::vector<nlohmann::json> ranks_;
};

TEST_F(SlowLink, IsReportedOnceAndPlannedWithOnAllRanksAlike) {
  run("4x2:1gbit,host2=200mbit", kMost, -1);
  const auto lines = reports();
  if (lines.empty() && ranks_[0].at("slowest_from") == -1 && others_had_the_cores())
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
  if (reports().empty() && result_.out.find("slowest link") == std::string::npos &&
      others_had_the_cores())
    GTEST_SKIP() << "other programs had the cores all the time: nothing can be measured";
  EXPECT_EQ(reports().size(), 1u) << result_.err;
  EXPECT_TRUE(matches(result_.out, "# slowest link: host [01] to host [01], [0-9.]+ MB/s"))
      << result_.out;
  EXPECT_TRUE(matches(result_.out, "# plans were made again for slow links: 1 x")) << result_.out;
}

TEST_F(SlowLink, IsNotWhatALateRankLooksLike) {
  constexpr int kLate = 2;  // a leader, which the others of the network wait for
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
