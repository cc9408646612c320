// SPDX-License-Identifier: Apache-2.0
// Variables of the environment; an empty one counts as none, as everywhere in Echelon.
#pragma once

#include <cstdlib>

namespace echelon::dropin {

inline bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace echelon::dropin
