// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/group_suite.h"
#include "transports/shm/shm_group.h"

namespace echelon::test {
namespace {

GroupCase shm_case(const char* name, bool processes) {
  return {name, processes, [] { return make_shm_group(); }};
}

INSTANTIATE_TEST_SUITE_P(Shm, GroupSuite,
                         testing::Values(shm_case("Processes", true), shm_case("Threads", false)),
                         case_name);

}  // namespace
}  // namespace echelon::test
