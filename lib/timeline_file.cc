// SPDX-License-Identifier: Apache-2.0
#include "lib/timeline_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>

#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr std::size_t kBuffer = 1 << 20;
constexpr mode_t kMode = 0666;  // less what the user's mask takes away

// Another one each time: a second communicator shall not write over the first one's file.
std::string claimed(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, int> claims;
  const std::lock_guard lock(mutex);
  const int count = ++claims[path];
  return count == 1 ? path : with_suffix(path, fmt::format("-{}", count));
}

// Another one each time: a trial shall not write over what another thread is writing.
std::string unfinished(const std::string& path) {
  static std::atomic<int> number = 0;
  return fmt::format("{}.{}.{}.unfinished", path, ::getpid(), ++number);
}

// "+" and the path, or "-" and why it cannot be written.
std::string path_or_excuse(const std::string& wanted) {
  try {
    const TimelineFile trial(wanted);
    return "+" + claimed(wanted);
  } catch (const Error& e) {
    return std::string("-") + e.what();
  }
}

}  // namespace

TimelineFile::TimelineFile(const std::string& path) : path_(path), unfinished_(unfinished(path)) {
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) throw system_error(path, EISDIR);
  file_ = Fd(::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file_) throw system_error(path);
}

TimelineFile::~TimelineFile() {
  if (file_) ::unlink(unfinished_.c_str());
}

void TimelineFile::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void TimelineFile::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t n = ::write(file_.get(), left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error(path_);
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  buffer_.clear();
}

void TimelineFile::commit() {
  flush();
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) throw system_error(path_);
  file_ = Fd();
}

std::string with_suffix(const std::string& path, const std::string& suffix) {
  const std::filesystem::path whole(path);
  std::filesystem::path name = whole.stem();
  name += suffix;
  name += whole.extension();
  return (whole.parent_path() / name).string();
}

std::string agree_on_timeline(Control& control, const Options& options, const Log& log,
                              Deadline deadline) {
  if (options.timeline.empty()) return {};
  const std::string mine = control.rank() == 0 ? path_or_excuse(options.timeline) : "";
  const std::string told = control.allgather(mine, deadline)[0];
  if (!told.starts_with('+')) {
    const std::string why = fmt::format("rank 0 cannot write the timeline (ECHELON_TIMELINE): {}",
                                        told.substr(std::min<std::size_t>(1, told.size())));
    if (!options.if_possible) throw invalid(why);
    if (control.rank() == 0) log(ECH_LOG_WARN, why);
    return {};
  }
  std::error_code failed;  // a program may go to another folder before it ends
  const auto absolute = std::filesystem::absolute(told.substr(1), failed);
  return failed ? told.substr(1) : absolute.string();
}

}  // namespace echelon
