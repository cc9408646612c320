// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/usage.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace echelon::test {

Usage usage() {
  malloc_trim(0);  // what is free is no leak
  Usage now;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++now.descriptors;
  std::ifstream status("/proc/self/status"), maps("/proc/self/maps");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) now.anonymous = std::stol(line.substr(8));
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:echelon") != line.npos) ++now.segments;
  return now;
}

}  // namespace echelon::test
