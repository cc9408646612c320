// SPDX-License-Identifier: Apache-2.0
#include "mpi/progress.h"

#include "mpi/lookup.h"

namespace echelon::dropin {
namespace {

// In libopen-pal, which libmpi brings along.
struct Engine {
  void (*progress)() = look_up<void()>("opal_progress");
  int (*join)(int (*)()) = look_up<int(int (*)())>("opal_progress_register");
  int (*leave)(int (*)()) = look_up<int(int (*)())>("opal_progress_unregister");
};

const Engine& engine() {
  static const Engine found;
  return found;
}

}  // namespace

void progress_mpi() { engine().progress(); }

bool join_progress(int (*step)()) {
  const Engine& e = engine();
  return e.progress != nullptr && e.join != nullptr && e.leave != nullptr && e.join(step) == 0;
}

void leave_progress(int (*step)()) { engine().leave(step); }

}  // namespace echelon::dropin
