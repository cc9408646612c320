// SPDX-License-Identifier: Apache-2.0
// What goes wrong, when, over which transport and in which shape: in every case every survivor
// ends within a bound, with the right status, and names the culprit. ECHELON_FAULTS=all runs the
// whole matrix; otherwise a quarter of the cases runs, with every value of every axis among them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "echelon/echelon.h"
#include "tests/cluster/virtual_cluster.h"
#include "tests/faults/job.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using cluster::Cluster;

constexpr double kHeartbeat = 2, kCreation = 4;  // s, as the ranks are told
constexpr double kDeathBound = 1 * kSlowness;
constexpr double kSilenceBound = kHeartbeat + 1.5 * kSlowness;
constexpr double kCreationBound = kCreation + 2 * kSlowness;

struct Case {
  const char* shape;
  const char* moment;
  const char* fault;
  int victim;
  int number;

  std::string name() const {
    std::string text = fmt::format("{}_{}_{}_of_rank_{}", shape, moment, fault, victim);
    for (char& c : text)
      if (!isalnum(static_cast<unsigned char>(c))) c = '_';
    return text;
  }
};

std::vector<Case> matrix() {
  // Ranks of one host; of several, by shared memory and network; by network only; of unequal hosts.
  constexpr const char* kShapes[] = {"1x4:10gbit", "2x2:10gbit", "4x1:10gbit", "3+1:10gbit"};
  constexpr const char* kMoments[] = {"creation",  "idle",      "allreduce", "reduce_scatter",
                                      "allgather", "broadcast", "reduce",    "barrier",
                                      "pending",   "split",     "destroy"};
  constexpr const char* kFaults[] = {"kill", "exit", "crash", "stop", "abort", "cut"};
  std::vector<Case> all;
  int number = 0;
  for (const char* shape : kShapes)
    for (const char* moment : kMoments)
      for (const char* fault : kFaults)
        for (int victim : {0, 2}) {
          const std::string_view m(moment), f(fault);
          if (f == "cut" &&
              (std::string_view(shape).starts_with("1x") || m == "creation" || m == "destroy"))
            continue;
          if (f == "abort" && m == "creation") continue;  // there is nothing to abort yet
          all.push_back({shape, moment, fault, victim, number++});
        }
  const char* wanted = std::getenv("ECHELON_FAULTS");
  if (wanted != nullptr && std::string_view(wanted) == "all") return all;
  std::erase_if(all, [](const Case& c) { return c.number * 5 % 13 > 2; });
  return all;
}

Job::Start start_of(const Case& c) {
  Job::Start start;
  start.number = c.number;
  start.argv = [c](int rank) {
    constexpr int kCount = 1 << 18;  // 1 MiB: several segments, all variants of shared memory
    const bool small = c.number % 2 == 1;
    std::vector<std::string> argv = {std::getenv("ECHELON_FAULT_RANK"), c.moment,
                                     std::to_string(small ? 64 : kCount)};
    if (rank != c.victim || std::string_view(c.fault) == "cut") return argv;
    argv.push_back(c.fault);
    argv.push_back(std::to_string(20 + 13 * c.number % 90));
    return argv;
  };
  const bool creation = std::string_view(c.moment) == "creation";
  start.env = {fmt::format("ECHELON_HEARTBEAT={}", kHeartbeat), "ECHELON_STALL=0.5",
               fmt::format("ECHELON_TIMEOUT={}", creation ? kCreation : 60)};
  return start;
}

// ---- the cases ----------------------------------------------------------------------------------

class Faults : public testing::TestWithParam<Case> {
 protected:
  static void TearDownTestSuite() { clusters().clear(); }
  static std::map<std::string, std::unique_ptr<Cluster>>& clusters() {
    static std::map<std::string, std::unique_ptr<Cluster>> all;
    return all;
  }
  void SetUp() override {
    auto& cluster = clusters()[GetParam().shape];
    if (!cluster) cluster = make_cluster(GetParam().shape);
    cluster_ = cluster.get();
  }

  bool is(const char* fault) const { return std::string_view(GetParam().fault) == fault; }
  bool at(const char* moment) const { return std::string_view(GetParam().moment) == moment; }
  bool dies() const { return is("kill") || is("exit") || is("crash"); }
  long long strike(Job& job) const;
  void judge(const Rank& rank, const Rank& victim, long long struck) const;
  bool lost_its_interface(const Rank::End& end, const Rank& rank, const Rank& victim) const;
  void judge_status(const Rank::End& end) const;
  void judge_text(const Rank::End& end, const Rank& rank, const Rank& victim) const;

  const Cluster* cluster_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Matrix, Faults, testing::ValuesIn(matrix()),
                         [](const auto& p) { return p.param.name(); });

// When it happened. For a host that is cut off, makes it happen.
long long Faults::strike(Job& job) const {
  const int victim = GetParam().victim;
  if (!is("cut")) {
    EXPECT_TRUE(job.listen([&] { return job.ranks()[victim].said("struck").has_value(); }));
    return std::atoll(job.ranks()[victim].said("struck").value_or("0").c_str());
  }
  EXPECT_TRUE(job.listen([&] { return job.all_said("in"); }));
  usleep(static_cast<unsigned>(GetParam().number % 7) * 10'000);
  cluster_->set_link(job.ranks()[victim].host, false);
  return now();
}

// A rank of the host that is cut off can find that itself, when it opens the network.
bool Faults::lost_its_interface(const Rank::End& end, const Rank& rank, const Rank& victim) const {
  return is("cut") && rank.host == victim.host && end.status == ECH_ERR_SYSTEM &&
         end.text.find("network interface") != std::string::npos;
}

void Faults::judge_status(const Rank::End& end) const {
  const auto status = static_cast<ech_status>(end.status);
  if (at("creation") || is("cut")) {
    EXPECT_TRUE(status == ECH_ERR_PEER || status == ECH_ERR_TIMEOUT) << end.text;
  } else {
    const ech_status wanted = dies()       ? ECH_ERR_PEER
                              : is("stop") ? ECH_ERR_TIMEOUT
                                           : ECH_ERR_ABORTED;
    EXPECT_EQ(status, wanted) << end.text;
  }
}

void Faults::judge_text(const Rank::End& end, const Rank& rank, const Rank& victim) const {
  std::string culprit = fmt::format("rank {} ", victim.number);
  // At creation others may be missed as well. A host that is cut off misses the rest of the world,
  // and is missed as a whole.
  if (is("cut")) culprit = Cluster::host_name(victim.host);
  if (at("creation") || (is("cut") && rank.host == victim.host)) culprit = "rank";
  EXPECT_NE(end.text.find(culprit), std::string::npos) << culprit << " is not in: " << end.text;
  if (at("creation") || is("cut")) return;
  EXPECT_NE(end.text.find("pid " + victim.said("in").value_or("?")), std::string::npos) << end.text;
  EXPECT_NE(end.text.find(Cluster::host_name(victim.host)), std::string::npos) << end.text;
}

void Faults::judge(const Rank& rank, const Rank& victim, long long struck) const {
  SCOPED_TRACE(fmt::format("rank {} on host{}: {}", rank.number, rank.host, rank.text));
  const Rank::End end = rank.end();
  // Who had noticed before it called destroy had nothing more to wait for.
  if (at("destroy") && end.status == ECH_OK && end.at > struck) return;
  if (!lost_its_interface(end, rank, victim)) {
    judge_status(end);
    judge_text(end, rank, victim);
  }
  const double bound = at("creation")            ? kCreationBound
                       : is("stop") || is("cut") ? kSilenceBound
                                                 : kDeathBound;
  EXPECT_LT(seconds(end.at - struck), bound) << end.text;
}

TEST_P(Faults, EndEverySurvivor) {
  const int victim = GetParam().victim;
  Job job(*cluster_, start_of(GetParam()));
  const long long struck = strike(job);
  const int except = is("cut") ? -1 : victim;
  const bool ended = job.listen([&] { return job.all_said("ended", except); });
  if (is("cut")) cluster_->set_link(job.ranks()[victim].host, true);
  EXPECT_TRUE(ended) << "a rank hangs";
  if (is("stop") || !ended) job.end(victim);
  for (const Rank& rank : job.ranks()) {
    if (rank.number == except) continue;
    judge(rank, job.ranks()[victim], struck);
    if (!ended) continue;
    EXPECT_EQ(job.exit_code(rank.number), 0) << "rank " << rank.number;
  }
}

}  // namespace
}  // namespace echelon::test
