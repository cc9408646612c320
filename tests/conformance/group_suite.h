// SPDX-License-Identifier: Apache-2.0
// What every GroupEngine must do. An implementation joins with
//   INSTANTIATE_TEST_SUITE_P(Name, GroupSuite, testing::Values(GroupCase{...}), case_name);
#pragma once

#include <gtest/gtest.h>

#include "tests/conformance/group_ranks.h"

namespace echelon::test {

class GroupSuite : public testing::TestWithParam<GroupCase> {};

inline std::string case_name(const testing::TestParamInfo<GroupCase>& info) {
  return info.param.name;
}

}  // namespace echelon::test
