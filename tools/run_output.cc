// SPDX-License-Identifier: Apache-2.0
#include "tools/run_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace echelon::run {
namespace {

// A line longer than this is passed on in pieces, so that memory stays bounded.
constexpr std::size_t kMaxLine = 1U << 20;

}  // namespace

bool LineWriter::write(std::string_view bytes) {
  if (!tagged_) return write_all(fd_, bytes);
  std::string out;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    partial_.append(bytes.substr(0, newline));
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    if (newline == std::string_view::npos && partial_.size() < kMaxLine) break;
    out += tag_ + partial_ + '\n';
    partial_.clear();
  }
  return write_all(fd_, out);
}

bool LineWriter::finish() { return partial_.empty() || write("\n"); }

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
    if (n >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd wait = {fd, POLLOUT, 0};
    poll(&wait, 1, -1);
  }
  return true;
}

}  // namespace echelon::run
