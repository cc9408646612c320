// SPDX-License-Identifier: Apache-2.0
// A folder of small files made from a fuzzer's input, as /proc and /sys are: a line "path value"
// makes a file, "path > target" a link.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace echelon::fuzz {

// A folder that goes when the program ends.
class Tree {
 public:
  Tree() {
    std::string pattern = "/dev/shm/echelon-sysfs-XXXXXX";  // 60 times as fast as a disk
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    root_ = pattern;
  }
  ~Tree() { std::filesystem::remove_all(root_); }

  void fill(std::string_view input) {
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      std::filesystem::remove_all(entry.path());
    for (int n = 0; n < kMostFiles && !input.empty(); ++n) {
      const std::string_view line = input.substr(0, input.find('\n'));
      input.remove_prefix(std::min(input.size(), line.size() + 1));
      add(line);
    }
  }
  std::string root() const { return root_.string(); }

 private:
  // Nothing outside the tree, and no deeper than the real one.
  static bool harmless(std::string_view path) {
    return !path.empty() && path.size() < 200 && path[0] != '/' && path.find("..") == path.npos &&
           path.find('\0') == path.npos && std::count(path.begin(), path.end(), '/') < 10;
  }

  void add(std::string_view line) const {
    const std::size_t space = line.find(' ');
    if (space == line.npos) return;
    const std::string_view path = line.substr(0, space);
    std::string_view value = line.substr(space + 1);
    if (!harmless(path)) return;
    std::error_code ignored;
    std::filesystem::create_directories((root_ / path).parent_path(), ignored);
    if (!value.starts_with("> ")) {
      std::ofstream(root_ / path, std::ios::binary) << value << '\n';
      return;
    }
    value.remove_prefix(2);
    if (harmless(value)) std::filesystem::create_directories(root_ / value, ignored);
    if (harmless(value)) std::filesystem::create_symlink(root_ / value, root_ / path, ignored);
  }

  static constexpr int kMostFiles = 64;

  std::filesystem::path root_;
};

}  // namespace echelon::fuzz
