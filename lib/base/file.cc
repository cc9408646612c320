// SPDX-License-Identifier: Apache-2.0
#include "lib/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <thread>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPipePatience{3};
constexpr std::chrono::milliseconds kPause{10};

bool is_pipe(const Fd& file) {
  struct stat about {};
  return ::fstat(file.get(), &about) == 0 && S_ISFIFO(about.st_mode);
}

// Waits for somebody to write, a while at most.
void await_writer(const Fd& file, const std::string& path, Clock::time_point end) {
  if (Clock::now() >= end) throw invalid(fmt::format("{}: a pipe to which nobody writes", path));
  pollfd entry{file.get(), POLLIN, 0};
  ::poll(&entry, 1, static_cast<int>(kPause.count()));
  if ((entry.revents & POLLHUP) != 0) std::this_thread::sleep_for(kPause);  // there is none yet
}

}  // namespace

std::string read_file(const std::string& path, std::size_t most) {
  // To open a pipe without a writer would take for ever otherwise.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw system_error(path);
  const bool pipe = is_pipe(file);
  Clock::time_point end = Clock::now() + kPipePatience;
  std::string text;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t n = ::read(file.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if ((n < 0 && errno == EAGAIN) || (n == 0 && pipe && text.empty())) {
      await_writer(file, path, end);
      continue;
    }
    if (n < 0) throw system_error(path);
    if (n == 0) return text;
    end = Clock::now() + kPipePatience;
    text.append(block.data(), static_cast<std::size_t>(n));
    if (text.size() > most)
      throw invalid(fmt::format("{}: more than {} bytes, too long to be meant", path, most));
  }
}

}  // namespace echelon
