// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/virtual_cluster.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "tools/cluster/cluster.h"

namespace echelon::test {
namespace {

std::string what_is_lacking() {
  try {
    const cluster::Cluster cluster(cluster::parse_spec("2x1:1gbit"));
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

void OnCluster::SetUp() {
  static const std::string lacking = what_is_lacking();
  if (!lacking.empty()) GTEST_SKIP() << "no virtual clusters here: " << lacking;
}

Result run_counted(const std::string& spec, const std::vector<std::string>& argv,
                   nlohmann::json& traffic) {
  const std::string file = testing::TempDir() + "traffic-" + std::to_string(getpid()) + ".json";
  std::vector<std::string> command = {program(),           "run",      "--emulate", spec,
                                      "--traffic=" + file, "--no-tag", "--"};
  command.insert(command.end(), argv.begin(), argv.end());
  const Result result = run_program(command, "", std::chrono::seconds(60));
  traffic = nlohmann::json::parse(std::ifstream(file), nullptr, false);
  std::filesystem::remove(file);
  return result;
}

}  // namespace echelon::test
