// SPDX-License-Identifier: Apache-2.0
// The processor time that the control groups of this process grant.
#include <algorithm>
#include <sstream>
#include <string>

#include "tools/doctor/checks.h"

namespace echelon::doctor {
namespace {

const std::string kMounts = "/sys/fs/cgroup";

// "/a/b": "/a/b", "/a", "": a group is bound by those above it. In a container the groups above
// its own are not shown; then only the files of the root are there.
std::vector<std::string> with_parents(std::string path) {
  std::vector<std::string> all;
  while (!path.empty() && path != "/") {
    all.push_back(path);
    path.resize(path.rfind('/'));
  }
  all.push_back("");
  return all;
}

void take_smaller(std::optional<double>& least, double quota, double period) {
  if (quota <= 0 || period <= 0) return;
  least = std::min(least.value_or(quota / period), quota / period);
}

// Version 2: one file, "150000 100000" or "max 100000".
void read_v2(const View& view, const std::string& group, std::optional<double>& least) {
  for (const char* mount : {"", "/unified"}) {
    std::istringstream in(view.text(kMounts + mount + group + "/cpu.max"));
    double quota = 0, period = 0;
    if (in >> quota >> period) take_smaller(least, quota, period);
  }
}

// Version 1: two files; the quota is -1 when there is none.
void read_v1(const View& view, const std::string& folder, std::optional<double>& least) {
  const auto quota = view.number(folder + "/cpu.cfs_quota_us");
  const auto period = view.number(folder + "/cpu.cfs_period_us");
  if (quota && period) take_smaller(least, *quota, *period);
}

bool lists_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<double> cpu_quota(const View& view) {
  std::optional<double> least;
  std::istringstream lines(view.text("/proc/self/cgroup"));
  std::string line;  // "4:cpu,cpuacct:/a/b" or "0::/a/b"
  while (std::getline(lines, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    for (const std::string& group : with_parents(line.substr(second + 1))) {
      if (controllers.empty()) read_v2(view, group, least);
      if (lists_cpu(controllers)) read_v1(view, kMounts + "/" + controllers + group, least);
    }
  }
  return least;
}

}  // namespace echelon::doctor
