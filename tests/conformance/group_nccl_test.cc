// SPDX-License-Identifier: Apache-2.0
// NCCL's group of GPUs: the real NCCL on a machine that has GPUs for it, else the stand-ins.
#include <stdexcept>

#include "tests/conformance/device_group.h"
#include "tests/conformance/group_suite.h"
#include "transports/nccl/nccl_group.h"

namespace echelon::test {

std::unique_ptr<GroupMedium> make_nccl() {
  return behind_host_memory([](const DeviceContext& device) {
    const NcclLibrary* nccl = nccl_library("");
    if (nccl == nullptr) throw std::runtime_error(nccl_absence(""));
    return make_nccl_group({nccl, &device, true});
  });
}

INSTANTIATE_TEST_SUITE_P(Nccl, GroupSuite, testing::Values(GroupCase{"Processes", true, make_nccl}),
                         case_name);

}  // namespace echelon::test
