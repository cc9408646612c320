// SPDX-License-Identifier: Apache-2.0
// Environment variables of launchers: lines NAME=value. Whatever they hold gives an identity that
// makes sense, nothing, or ECH_ERR_INVALID.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "lib/base/error.h"
#include "lib/bootstrap/environment.h"

namespace {

std::map<std::string, std::string> variables_in(std::string_view input) {
  std::map<std::string, std::string> variables;
  while (!input.empty()) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    const std::size_t equal = line.find('=');
    if (equal != line.npos)
      variables.emplace(line.substr(0, equal), std::string(line.substr(equal + 1)).c_str());
  }
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  const auto variables = variables_in({reinterpret_cast<const char*>(data), size});
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  try {
    const auto launch = read_environment(lookup);
    if (!launch) return 0;
    const Identity& identity = launch->identity;
    if (identity.rank < 0 || identity.rank >= identity.size) std::abort();
    if (!identity.host.empty() && identity.port == 0) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
