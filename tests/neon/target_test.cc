// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/reduce/reduce.h"

namespace echelon {
namespace {

TEST(Neon, IsWhatTheKernelsAreMadeOf) { EXPECT_STREQ(kernel_target(), "neon"); }

}  // namespace
}  // namespace echelon
