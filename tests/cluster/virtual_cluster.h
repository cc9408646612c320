// SPDX-License-Identifier: Apache-2.0
// What the tests on virtual clusters share.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/unit/run/program.h"

namespace echelon::test {

// Skips where this machine has no namespaces; says which part is missing.
class OnCluster : public testing::Test {
 protected:
  void SetUp() override;
};

// Runs `argv` on every rank of a virtual cluster, untagged, and writes to `traffic` what every wire
// has carried meanwhile, as --traffic=FILE has it.
Result run_counted(const std::string& spec, const std::vector<std::string>& argv,
                   nlohmann::json& traffic);

}  // namespace echelon::test
