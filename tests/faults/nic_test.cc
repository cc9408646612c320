// SPDX-License-Identifier: Apache-2.0
// A network interface that vanishes under a job. The ranks of its host find out what is missing and
// say so; the others learn it from them, or, where that was the way to them, by the heartbeat.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "echelon/echelon.h"
#include "tests/cluster/virtual_cluster.h"
#include "tests/faults/job.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using cluster::Cluster;

constexpr double kHeartbeat = 4;  // s, as the ranks are told
// Ranks look at their network interfaces once a second while they wait.
constexpr double kFoundBound = 1 + 1.5 * kSlowness;
constexpr double kSilenceBound = kHeartbeat + 1.5 * kSlowness;
constexpr int kLarge = 1 << 18, kSmall = 64;  // elements

const std::vector<std::string> kPatience = {fmt::format("ECHELON_HEARTBEAT={}", kHeartbeat),
                                            "ECHELON_STALL=0.5", "ECHELON_TIMEOUT=60"};

struct Case {
  const char* shape;
  const char* moment;
  int count;
  int host, nic;  // that vanishes
  int number;     // of the port

  std::string name() const {
    std::string text =
        fmt::format("{}_{}_of_{}_loses_nic_{}_of_host_{}", shape, moment, count, nic, host);
    for (char& c : text)
      if (!isalnum(static_cast<unsigned char>(c))) c = '_';
    return text;
  }
};

class Vanishing : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { cluster_ = make_cluster(GetParam().shape); }

  Job::Start start() const;
  void judge(const Rank& rank, long long struck) const;

  std::unique_ptr<Cluster> cluster_;
};

INSTANTIATE_TEST_SUITE_P(Nic, Vanishing,
                         testing::Values(Case{"2x2:10gbit", "idle", kLarge, 1, 0, 400},
                                         Case{"2x2:10gbit", "idle", kLarge, 0, 0, 401},
                                         Case{"2x2:10gbit", "allreduce", kLarge, 1, 0, 402},
                                         Case{"3+1:10gbit", "allreduce", kLarge, 0, 0, 403},
                                         Case{"4x1:10gbit", "allreduce", kSmall, 2, 0, 404},
                                         Case{"4x1:10gbit", "pending", kLarge, 0, 0, 405},
                                         Case{"2x2:2x10gbit", "allreduce", kLarge, 1, 0, 406},
                                         Case{"2x2:2x10gbit", "allreduce", kLarge, 1, 1, 407},
                                         Case{"2x2:2x10gbit", "allreduce", kLarge, 0, 1, 408}),
                         [](const auto& p) { return p.param.name(); });

Job::Start Vanishing::start() const {
  const Case& c = GetParam();
  const auto argv = [&c](int) {
    return std::vector<std::string>{std::getenv("ECHELON_FAULT_RANK"), c.moment,
                                    std::to_string(c.count)};
  };
  std::vector<std::string> env = kPatience;
  // By which all NICs are in use.
  if (std::string_view(c.shape).find(":2x") != std::string_view::npos)
    env.push_back("ECHELON_ALGORITHM=native/ring");
  return {c.number, argv, env};
}

void Vanishing::judge(const Rank& rank, long long struck) const {
  SCOPED_TRACE(fmt::format("rank {} on host{}: {}", rank.number, rank.host, rank.text));
  const Case& c = GetParam();
  const Rank::End end = rank.end();
  EXPECT_EQ(end.status, ECH_ERR_PEER);
  // By its first interface a host has its control connections.
  const bool is_told = rank.host == c.host || c.nic != 0;
  const std::string lost =
      fmt::format("has lost its network interface eth{}, which is gone", c.nic);
  EXPECT_NE(end.text.find(Cluster::host_name(c.host)), std::string::npos) << end.text;
  EXPECT_EQ(end.text.find(lost) != std::string::npos, is_told) << end.text;
  EXPECT_LT(seconds(end.at - struck), is_told ? kFoundBound : kSilenceBound) << end.text;
}

TEST_P(Vanishing, EndsEveryRankAndIsNamed) {
  Job job(*cluster_, start());
  ASSERT_TRUE(job.listen([&] { return job.all_said("in"); }));
  usleep(100'000);  // into the middle of it
  const long long struck = now();
  cluster_->delete_nic(GetParam().host, GetParam().nic);
  ASSERT_TRUE(job.listen([&] { return job.all_said("ended"); })) << "a rank hangs";
  for (const Rank& rank : job.ranks()) {
    judge(rank, struck);
    EXPECT_EQ(job.exit_code(rank.number), 0) << "rank " << rank.number;
  }
}

}  // namespace
}  // namespace echelon::test
