// SPDX-License-Identifier: Apache-2.0
// Functions that an MPI library may have beside those of MPI.
#pragma once

#include <dlfcn.h>

namespace echelon::dropin {

// look_up<int(char)>("name"); null where the process has no such function.
template <typename Signature>
Signature* look_up(const char* name) {
  return reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace echelon::dropin
