// SPDX-License-Identifier: Apache-2.0
// Devices that are there and devices that are not. What becomes of one that vanishes or goes down
// under a job is tested in virtual clusters (tests/faults).
#include "lib/fabric/nic_state.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(NicState, TellsWhatIsThereFromWhatIsNot) {
  EXPECT_EQ(nic_state("lo"), NicState::kThere);
  EXPECT_EQ(nic_state("no-such-nic"), NicState::kGone);
  EXPECT_EQ(nic_state("no_such_device:1"), NicState::kGone);
  EXPECT_EQ(nic_state("a name that is longer than the kernel allows"), NicState::kGone);
}

}  // namespace
}  // namespace echelon
