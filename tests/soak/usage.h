// SPDX-License-Identifier: Apache-2.0
// What this process holds, to find leaks.
#pragma once

namespace echelon::test {

struct Usage {
  long descriptors = 0;
  long anonymous = 0;  // KiB of memory of its own
  long segments = 0;   // of shared memory that are mapped
};

Usage usage();

}  // namespace echelon::test
