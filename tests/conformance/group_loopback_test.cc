// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/group_suite.h"
#include "transports/loopback/loopback_group.h"

namespace echelon::test {

INSTANTIATE_TEST_SUITE_P(Loopback, GroupSuite,
                         testing::Values(GroupCase{"Threads", false,
                                                   [] { return make_loopback_group(); }}),
                         case_name);

}  // namespace echelon::test
