// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "lib/base/error.h"
#include "tests/support/few_descriptors.h"

namespace echelon::test {
namespace {

std::string said(int needed) {
  try {
    require_descriptors(needed, "the test");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_NO_MEMORY);
    return e.what();
  }
  return "enough";
}

TEST(RequireDescriptors, CountsThoseThatAreLeft) {
  const int one = dup(STDERR_FILENO);
  const int two = dup(STDERR_FILENO);
  const FewDescriptors few(10);
  EXPECT_EQ(said(10), "enough");
  EXPECT_NE(said(11).find("the test needs 11 file descriptors, 10 are left"), std::string::npos)
      << said(11);
  EXPECT_NE(said(11).find("ulimit -n"), std::string::npos) << said(11);
  close(one);
  EXPECT_EQ(said(11), "enough") << "one that is below others";
  close(two);
}

// UCX's listener, which runs in a thread of its own, ends for good when it gets none.
TEST(RequireDescriptors, TakesNoneFromOtherThreads) {
  const FewDescriptors few(4);
  std::atomic<bool> over = false;
  std::atomic<int> refused = 0;
  std::thread other([&] {
    while (!over) {
      const int fd = dup(STDERR_FILENO);
      if (fd < 0) ++refused;
      close(fd);
    }
  });
  for (int i = 0; i < 20000; ++i) EXPECT_NE(said(16), "enough");
  over = true;
  other.join();
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace echelon::test
