// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_faults.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace echelon::standin {

Faults::Faults(const char* variable) {
  const char* value = std::getenv(variable);
  std::istringstream list(value != nullptr ? value : "");
  for (std::string one; std::getline(list, one, ',');) {
    const std::size_t colon = one.find(':'), equal = one.find('=');
    if (colon == std::string::npos || equal == std::string::npos || equal < colon)
      give_up(std::string(variable) + ": \"" + one + "\" is not FUNCTION:CALL=ERROR");
    functions_[one.substr(0, colon)].errors[std::atoi(one.c_str() + colon + 1)] =
        std::atoi(one.c_str() + equal + 1);
  }
}

int Faults::next(std::string_view function) {
  if (functions_.empty()) return 0;
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(function);
  if (found == functions_.end()) return 0;
  Count& count = found->second;
  const auto error = count.errors.find(++count.calls);
  return error != count.errors.end() ? error->second : 0;
}

double number_from(const char* variable, double fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? std::atof(value) : fallback;
}

void give_up(const std::string& message) {
  std::fprintf(stderr, "stand-in: %s\n", message.c_str());
  std::abort();
}

}  // namespace echelon::standin
