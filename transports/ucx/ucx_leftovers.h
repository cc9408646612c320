// SPDX-License-Identifier: Apache-2.0
// What a process that was killed can leave of UCX's shared memory. UCX gives a segment a name and
// takes that away when it has written and mapped it; who dies in between leaves the name, and 4
// MiB.
#pragma once

#include <string>

namespace echelon {

// Removes from `folder` the segments of this user that no process has open or mapped. Whoever makes
// one has it open until its name is gone, so none that is in use is taken away. Does nothing while
// another process does the same. Never throws.
void remove_ucx_leftovers(const std::string& folder = "/dev/shm") noexcept;

}  // namespace echelon
