// SPDX-License-Identifier: Apache-2.0
// Environment variables made from a fuzzer's input: lines NAME=value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace echelon::fuzz {

class Variables {
 public:
  Variables(const std::uint8_t* data, std::size_t size) {
    std::string_view input(reinterpret_cast<const char*>(data), size);
    while (!input.empty()) {
      const std::string_view line = input.substr(0, input.find('\n'));
      input.remove_prefix(std::min(input.size(), line.size() + 1));
      const std::size_t equal = line.find('=');
      if (equal != line.npos)  // up to a 0, as in an environment
        values_.emplace(line.substr(0, equal), std::string(line.substr(equal + 1)).c_str());
    }
  }

  const char* operator()(const char* name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : found->second.c_str();
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace echelon::fuzz
