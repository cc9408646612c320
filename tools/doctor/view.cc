// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace echelon::doctor {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

}  // namespace

std::string text_of(const Attempt& attempt) {
  if (attempt.signal != 0) return fmt::format("killed by signal {}", attempt.signal);
  return std::strerror(attempt.error);
}

std::string View::text(const std::string& path) const {
  std::ifstream in(root + path, std::ios::binary);
  std::string text;
  char some[4096];
  while (text.size() < kMostBytes && (in.read(some, sizeof some), in.gcount() > 0))
    text.append(some, static_cast<std::size_t>(in.gcount()));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::optional<double> View::number(const std::string& path) const {
  const std::string found = text(path);
  double value = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string> View::entries(const std::string& folder) const {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(root + folder, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace echelon::doctor
