// SPDX-License-Identifier: Apache-2.0
// What Linux says under /sys: lines "path value" make files, "path > target" links. Whatever they
// hold gives a host that can be shown and sent.
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"

namespace {

namespace fs = std::filesystem;

constexpr int kMostFiles = 64;

// A folder that goes when the program ends.
class Tree {
 public:
  Tree() {
    std::string pattern = "/dev/shm/echelon-sysfs-XXXXXX";  // 60 times as fast as a disk
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    root_ = pattern;
  }
  ~Tree() { fs::remove_all(root_); }

  void fill(std::string_view input) {
    for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
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
    fs::create_directories((root_ / path).parent_path(), ignored);
    if (!value.starts_with("> ")) {
      std::ofstream(root_ / path, std::ios::binary) << value << '\n';
      return;
    }
    value.remove_prefix(2);
    if (harmless(value)) fs::create_directories(root_ / value, ignored);
    if (harmless(value)) fs::create_symlink(root_ / value, root_ / path, ignored);
  }

  fs::path root_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  static Tree tree;
  tree.fill({reinterpret_cast<const char*>(data), size});
  Fabric fabric;
  fabric.hosts.resize(1);
  Host& host = fabric.hosts[0];
  host.name = "host";
  load_sysfs_cpus(host, tree.root());
  load_sysfs(host, tree.root());
  (void)to_text(fabric);
  host = host_from_wire(to_wire(host));
  const std::vector<RankPlace> places(2);
  if (!validate(make_layout(fabric, places)).empty()) std::abort();
  return 0;
}
