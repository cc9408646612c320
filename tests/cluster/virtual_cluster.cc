// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/virtual_cluster.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/error.h"

namespace echelon::test {

std::unique_ptr<cluster::Cluster> make_cluster(const std::string& spec) {
  std::string lacking;
  try {
    return std::make_unique<cluster::Cluster>(cluster::parse_spec(spec));
  } catch (const Error& e) {
    lacking = e.what();
  }
  [&] { GTEST_SKIP() << "no virtual clusters here: " << lacking; }();
  return nullptr;
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
