// SPDX-License-Identifier: Apache-2.0
// Collectives on virtual clusters: exact results, and the bytes that each wire carries. Bytes are
// bounded tightly, times loosely: machines are busy, and the tight bounds are for bench to show.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/cluster/virtual_cluster.h"

namespace echelon::test {
namespace {

constexpr double kPayload = 0.957;  // of a line's bits: the rest is Ethernet, IP and TCP headers
constexpr double kBits = 1e9;
constexpr double kSlack = 3;  // of times

// ---- results -----------------------------------------------------------------------------------

class Shapes : public OnCluster, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Clusters, Shapes,
                         testing::Values("4x2:1gbit", "3+1+2:1gbit", "2x2x2:1gbit/10gbit",
                                         "2x2:2x1gbit"));

TEST_P(Shapes, EveryCollectiveIsExact) {
  const Result r = run_program(
      {program(), "run", "--emulate", GetParam(), "--no-tag", "--", program(), "perf", "--check"},
      "", std::chrono::seconds(150));
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_FALSE(r.out.empty());
}

// ---- bytes and times ---------------------------------------------------------------------------

constexpr std::size_t kBytes = 16 << 20;

struct Measured {
  nlohmann::json traffic;
  std::vector<double> seconds;  // of each allreduce
};

Measured measure(const std::string& spec, int iterations, const std::string& plan = "") {
  Measured out;
  const Result r =
      run_counted(spec,
                  {"env", "ECHELON_ALGORITHM=" + plan, std::getenv("ECHELON_CLUSTER_RANK"),
                   std::to_string(kBytes), std::to_string(iterations)},
                  out.traffic);
  EXPECT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  for (double seconds = 0; lines >> seconds;) out.seconds.push_back(seconds);
  EXPECT_EQ(out.seconds.size(), static_cast<std::size_t>(iterations)) << r.out;
  return out;
}

// Bytes sent by each owner ("host2"), all its NICs together, in `list` ("hosts" or "racks").
std::map<std::string, double> sent(const nlohmann::json& traffic, const char* list) {
  const std::string owner(list, std::string_view(list).size() - 1);
  std::map<std::string, double> out;
  for (const auto& counter : traffic.at(list))
    out[counter.at(owner)] += counter.at("sent").get<double>();
  return out;
}

// What each of `n` parts must send of an allreduce: bytes, and the time that a line takes for it.
double least_bytes(double n) { return 2 * (n - 1) / n * kBytes; }
double least_time(double n) { return least_bytes(n) * 8 / (kPayload * kBits); }

constexpr int kIterations = 4;

// Creation, the probe of the links and barriers send too: what two runs differ in is allreduces.
struct Growth {
  std::map<std::string, double> hosts, racks;
  std::vector<double> seconds;
};

Growth growth(const std::string& spec, const std::string& plan = "") {
  const Measured few = measure(spec, 1, plan), more = measure(spec, 1 + kIterations, plan);
  Growth out{sent(more.traffic, "hosts"), sent(more.traffic, "racks"), more.seconds};
  for (const auto& [host, bytes] : sent(few.traffic, "hosts")) out.hosts[host] -= bytes;
  for (const auto& [rack, bytes] : sent(few.traffic, "racks")) out.racks[rack] -= bytes;
  return out;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

void expect_bytes(const std::map<std::string, double>& by_owner, std::size_t n) {
  ASSERT_EQ(by_owner.size(), n);
  for (const auto& [owner, bytes] : by_owner) {
    EXPECT_LE(bytes, 1.05 * kIterations * least_bytes(n)) << owner;
    EXPECT_GE(bytes, 0.9 * kIterations * kBytes / n) << owner << ": less than its share";
  }
}

class Wires : public OnCluster {};

TEST_F(Wires, FourHostsSendTheirShare) {
  const Growth run = growth("4x2:1gbit");
  expect_bytes(run.hosts, 4);
  EXPECT_LT(median(run.seconds), kSlack * least_time(4));
}

TEST_F(Wires, UnequalHostsSendTheirShare) {
  const Growth run = growth("3+1+2:1gbit");
  expect_bytes(run.hosts, 3);
  EXPECT_LT(median(run.seconds), kSlack * least_time(3));
}

// Where ranks share CPUs one host of a rack sends for both, which its quick NIC bears.
TEST_F(Wires, UplinksCarryWhatRacksMust) {
  const Growth run = growth("2x2x2:1gbit/10gbit");
  expect_bytes(run.racks, 2);
  ASSERT_EQ(run.hosts.size(), 4u);
  double most = 0;
  for (const auto& [host, bytes] : run.hosts) most = std::max(most, bytes);
  const bool shared = std::thread::hardware_concurrency() < 8;
  EXPECT_LE(most, 1.05 * kIterations * (shared ? 2 : 1.5) * kBytes);
  EXPECT_GE(most, 0.9 * kIterations * (shared ? 2 : 1.5) * kBytes);
  EXPECT_LT(median(run.seconds), kSlack * least_time(2));
}

TEST_F(Wires, HostsOfRacksSendTheirShareByParts) {
  const Growth run = growth("2x2x2:1gbit/10gbit", "native/ring/ring");
  expect_bytes(run.hosts, 4);
  expect_bytes(run.racks, 2);
  EXPECT_LT(median(run.seconds), kSlack * least_time(2));
}

TEST_F(Wires, TwoNicsShareTheWork) {
  const Measured run = measure("2x2:2x1gbit", 3);
  std::map<std::string, std::set<double>> nics;
  for (const auto& counter : run.traffic.at("hosts"))
    nics[counter.at("host")].insert(counter.at("sent").get<double>());
  ASSERT_EQ(nics.size(), 2u);
  for (const auto& [host, bytes] : nics) {
    ASSERT_EQ(bytes.size(), 2u) << host;
    EXPECT_GT(*bytes.begin(), 0.7 * *bytes.rbegin()) << host << ": one NIC does the work";
  }
  EXPECT_LT(median(run.seconds), kSlack * least_time(2) / 2);
}

// ---- what ranks are told -----------------------------------------------------------------------

class Told : public OnCluster {};

TEST_F(Told, RanksUseTheNicsThatTheyAreToldToUse) {
  nlohmann::json traffic;
  const Result r = run_counted("2x1:2x1gbit",
                               {"env", "ECHELON_NICS=eth1", std::getenv("ECHELON_CLUSTER_RANK"),
                                std::to_string(kBytes), "2"},
                               traffic);
  EXPECT_EQ(r.code, 0) << r.err;
  ASSERT_EQ(traffic.at("hosts").size(), 4u);
  for (const auto& counter : traffic.at("hosts")) {
    const double sent = counter.at("sent");
    if (counter.at("device") == "eth1")
      EXPECT_GT(sent, 2 * least_bytes(2));
    else
      EXPECT_LT(sent, 0.01 * kBytes) << "the control connection";
  }
}

// Four hosts on two switches, with a plan that needs three tiers.
Result run_on_switches(const std::string& pattern) {
  const char* const rank =
      "case $(hostname) in host0|host1) leaf=a;; *) leaf=b;; esac; "
      "export SLURM_TOPOLOGY_ADDR=core.$leaf.$(hostname); exec \"$0\" \"$@\"";
  return run_program(
      {program(), "run", "--emulate", "4x2:1gbit", "--no-fabric", "--no-tag", "--", "env",
       "ECHELON_ALGORITHM=native/ring/ring", "SLURM_TOPOLOGY_ADDR_PATTERN=" + pattern, "sh", "-c",
       rank, std::getenv("ECHELON_CLUSTER_RANK"), "65536", "1"},
      "", std::chrono::seconds(60));
}

TEST_F(Told, SlurmsSwitchesMakeARackTier) {
  const Result r = run_on_switches("switch.switch.node");
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Told, WithoutSwitchesThereAreNoRacks) {
  const Result r = run_on_switches("node");
  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.err.find("\"native/ring/ring\" cannot do allreduce"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace echelon::test
