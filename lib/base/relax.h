// SPDX-License-Identifier: Apache-2.0
// A hint to the processor that this is a busy wait.
#pragma once

namespace echelon {

// Between two looks at a cache line that another core writes: leaves the line to the writer for a
// moment, and the core to its other hardware thread.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace echelon
