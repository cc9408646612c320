// SPDX-License-Identifier: Apache-2.0
// For the library's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace echelon {

// Signals are the caller's; they go to its threads. First thing in a thread of the library.
inline void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace echelon
