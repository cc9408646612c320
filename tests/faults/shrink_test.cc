// SPDX-License-Identifier: Apache-2.0
// Going on after failures, in virtual clusters: whole hosts that are lost, hosts that lose some of
// their ranks, the rank by which all had met, one failure after the other and two at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cluster/virtual_cluster.h"
#include "tests/faults/job.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using cluster::Cluster;

constexpr double kHeartbeat = 2;  // s, as the ranks are told
// From a death, or from the loss of a host, until the others have a communicator that works. A host
// that is lost is missed once by the communicator and once by the shrink.
constexpr double kDeathBound = 10 * kSlowness;
constexpr double kLossBound = 2 * kHeartbeat + 10 * kSlowness;

struct Loss {
  std::vector<int> ranks;  // that are killed
  int host = -1;           // that is cut off
};

struct Case {
  const char* name;
  const char* shape;
  std::vector<Loss> losses;  // one after the other
  int number;                // of the port
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Shrinking : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { cluster_ = make_cluster(GetParam().shape); }

  void strike(Job& job, const Loss& loss);
  void expect_sizes(Job& job, long long struck, double bound);

  std::unique_ptr<Cluster> cluster_;
  std::vector<int> dead_;
  int cut_ = -1;  // a host
};

INSTANTIATE_TEST_SUITE_P(
    After, Shrinking,
    testing::Values(Case{"AHostHasFewerRanks", "2x2:10gbit", {{{1}}}, 300},
                    Case{"TheRootDies", "2x2:10gbit", {{{0}}}, 301},
                    Case{"AHostIsGone", "2x2:10gbit", {{{2, 3}, 1}}, 302},
                    Case{"TheRootsHostIsGone", "3x2:10gbit", {{{0, 1}, 0}}, 303},
                    Case{"AHostIsCutOff", "3x1:10gbit", {{{}, 1}}, 304},
                    Case{"TheRootsHostIsCutOff", "2+1:10gbit", {{{}, 0}}, 305},
                    Case{"TwoDieAtOnce", "4x1:10gbit", {{{0, 2}}}, 306},
                    Case{"ThreeDieInARow", "4x1:10gbit", {{{0}}, {{1}}, {{3}}}, 307},
                    Case{"ThreeOfUnequalHosts", "3+1:10gbit", {{{1}}, {{0}}, {{2}}}, 308},
                    Case{"OnOneHost", "1x4:10gbit", {{{0, 3}}, {{1}}}, 309}),
    [](const auto& p) { return std::string(p.param.name); });

void Shrinking::strike(Job& job, const Loss& loss) {
  if (loss.host >= 0) cluster_->set_link(cut_ = loss.host, false);
  for (int rank : loss.ranks) job.end(rank);
  dead_.insert(dead_.end(), loss.ranks.begin(), loss.ranks.end());
}

// Every rank that lives is with all others that it can reach.
void Shrinking::expect_sizes(Job& job, long long struck, double bound) {
  const auto lives = [&](const Rank& rank) { return !std::ranges::count(dead_, rank.number); };
  const auto size_of = [&](const Rank& rank) {
    return std::ranges::count_if(job.ranks(), [&](const Rank& other) {
      return lives(other) && (other.host == cut_) == (rank.host == cut_);
    });
  };
  const auto is_there = [&](const Rank& rank) {
    return !lives(rank) ||
           rank.said("size").value_or("").starts_with(fmt::format("{} ", size_of(rank)));
  };
  EXPECT_TRUE(job.listen([&] { return std::ranges::all_of(job.ranks(), is_there); }));
  for (const Rank& rank : job.ranks()) {
    if (!lives(rank)) continue;
    int size = 0;
    long long at = 0;
    std::istringstream(rank.said("size").value_or("")) >> size >> at;
    EXPECT_EQ(size, size_of(rank)) << "rank " << rank.number << ": " << rank.text;
    EXPECT_LT(seconds(at - struck), bound) << "rank " << rank.number;
  }
}

TEST_P(Shrinking, GoesOn) {
  const Case& c = GetParam();
  std::size_t at_the_end = 0;
  for (const auto& host : cluster_->spec().hosts) at_the_end += host.ranks;
  for (const Loss& loss : c.losses) at_the_end -= std::max<std::size_t>(loss.ranks.size(), 1);
  Job::Start start{c.number, {}, {fmt::format("ECHELON_HEARTBEAT={}", kHeartbeat)}};
  start.argv = [&](int) {
    return std::vector<std::string>{std::getenv("ECHELON_SHRINK_RANK"), "100000",
                                    std::to_string(at_the_end)};
  };
  Job job(*cluster_, start);
  long long struck = now();
  expect_sizes(job, struck, kDeathBound);
  for (const Loss& loss : c.losses) {
    struck = now();
    strike(job, loss);
    expect_sizes(job, struck, loss.host < 0 ? kDeathBound : kLossBound);
  }
  for (const Rank& rank : job.ranks()) {
    if (std::ranges::count(dead_, rank.number) > 0) continue;
    EXPECT_EQ(job.exit_code(rank.number), 0) << "rank " << rank.number << ": " << rank.text;
  }
}

}  // namespace
}  // namespace echelon::test
