// SPDX-License-Identifier: Apache-2.0
// NCCL's group of GPUs: the real NCCL on a machine that has GPUs for it, else the stand-ins.
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/conformance/device_group.h"
#include "tests/conformance/group_suite.h"
#include "tests/support/gpu.h"
#include "transports/nccl/nccl_group.h"

namespace echelon::test {

namespace {

// All ranks use the first GPU. The real NCCL allows that where it is told to (2.30), and before on
// different hosts, for which it takes what has different names.
void be_a_host() {
  if (on_standin()) return;
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  setenv("NCCL_HOSTID", std::to_string(getpid()).c_str(), 1);
}

}  // namespace

std::unique_ptr<GroupMedium> make_nccl() {
  return behind_host_memory([](const DeviceContext& device) {
    const NcclLibrary* nccl = nccl_library("");
    if (nccl == nullptr) throw std::runtime_error(nccl_absence(""));
    be_a_host();
    return make_nccl_group({nccl, &device}, true);
  });
}

INSTANTIATE_TEST_SUITE_P(Nccl, GroupSuite, testing::Values(GroupCase{"Processes", true, make_nccl}),
                         case_name);

}  // namespace echelon::test
