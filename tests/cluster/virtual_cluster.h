// SPDX-License-Identifier: Apache-2.0
// What the tests on virtual clusters share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/unit/run/program.h"
#include "tools/cluster/cluster.h"

namespace echelon::test {

// Where this machine has no namespaces: nothing, and the test is skipped, saying what is missing.
std::unique_ptr<cluster::Cluster> make_cluster(const std::string& spec);

// Skips where there are none.
class OnCluster : public testing::Test {
 protected:
  void SetUp() override { make_cluster("2x1:1gbit"); }
};

// Runs `argv` on every rank of a virtual cluster, untagged, and writes to `traffic` what every wire
// has carried meanwhile, as --traffic=FILE has it.
Result run_counted(const std::string& spec, const std::vector<std::string>& argv,
                   nlohmann::json& traffic);

}  // namespace echelon::test
