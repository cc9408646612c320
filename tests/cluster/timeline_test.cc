// SPDX-License-Identifier: Apache-2.0
// The timeline of a virtual cluster, whose hosts have one clock: how far apart the ranks believe
// their clocks to be must be zero within the error that they state.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cluster/virtual_cluster.h"
#include "tests/support/temp_folder.h"

namespace echelon::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kRanks = 4;

class ClusterTimeline : public OnCluster {
 protected:
  Json measured() const {
    const std::string path = folder_.file("t.json");
    const Result result =
        echelon_run({"--emulate", "2x2:1gbit", "--env", "ECHELON_TIMELINE=" + path, "--", program(),
                     "perf", "-b", "1M", "-e", "1M", "--algorithm", "native/ring@256KiB"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::ifstream in(path);
    EXPECT_TRUE(in) << result.err;
    return Json::parse(in, nullptr, false);
  }

 private:
  const TempFolder folder_{"timeline"};
};

TEST_F(ClusterTimeline, IsOnOneClock) {
  const Json file = measured();
  ASSERT_FALSE(file.is_discarded());
  const Json& clocks = file["otherData"]["clocks"];
  ASSERT_EQ(clocks.size(), static_cast<std::size_t>(kRanks));
  for (const Json& clock : clocks) {
    const double error = clock["error_us"], behind = clock["behind_us"];
    EXPECT_LE(std::abs(behind), error) << clock;
    EXPECT_EQ(error > 0, clock["rank"] >= 2) << "the ranks of a host have one clock: " << clock;
  }
  std::map<int, std::pair<double, double>> meeting;  // by sequence: last begin, first end
  for (const Json& e : file["traceEvents"]) {
    if (e.value("cat", "") != "operation" || e["args"].value("type", "") != "f32") continue;
    const double begin = e["ts"], end = begin + e["dur"].get<double>();
    const auto at = meeting.try_emplace(e["args"]["sequence"], begin, end).first;
    at->second = {std::max(at->second.first, begin), std::min(at->second.second, end)};
  }
  ASSERT_FALSE(meeting.empty());
  double error = 0;
  for (const Json& clock : clocks) error = std::max(error, clock["error_us"].get<double>());
  for (const auto& [sequence, times] : meeting)
    EXPECT_LT(times.first, times.second + 2 * error) << "operation #" << sequence;
}

TEST_F(ClusterTimeline, ShowsTheTiers) {
  const Json file = measured();
  ASSERT_FALSE(file.is_discarded());
  std::map<std::string, std::uint64_t> bytes;  // by phase, of rank 3
  std::uint64_t operations = 0;
  for (const Json& e : file["traceEvents"]) {
    if (e["pid"] != 3 || e["args"].value("bytes", 0) == 0) continue;
    const Json& a = e["args"];
    const std::string category = e.value("cat", "");
    if (category == "operation" && a.value("plan", "") == "native/ring@256KiB" &&
        a["bytes"] == 1 << 20)
      ++operations;
    if (category == "phase" && a.contains("tier"))
      bytes[e["name"]] += a["sent"].get<std::uint64_t>();
  }
  ASSERT_GT(operations, 0u);
  for (const char* phase : {"reduce_scatter(host) by native", "allgather(host) by native"}) {
    ASSERT_TRUE(bytes.contains(phase)) << phase;
    EXPECT_EQ(bytes[phase], 0u) << phase;
  }
  // Half of the buffer is this rank's; of that it sends half, and then the other half.
  EXPECT_GE(bytes["allreduce(cluster) by ring"], operations * (1 << 19));
}

}  // namespace
}  // namespace echelon::test
