// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/group_suite.h"
#include "transports/shm/shm_group.h"

namespace echelon::test {

INSTANTIATE_TEST_SUITE_P(
    Shm, GroupSuite,
    testing::Values(GroupCase{"Processes", true, [] { return make_shm_group(); }},
                    GroupCase{"Threads", false, [] { return make_shm_group(); }}),
    case_name);

}  // namespace echelon::test
