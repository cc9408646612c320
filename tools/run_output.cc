// SPDX-License-Identifier: Apache-2.0
#include "tools/run_output.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace echelon::run {
namespace {

// A line longer than this is passed on in pieces, so that memory stays bounded.
constexpr std::size_t kMaxLine = 1U << 20;
constexpr std::size_t kFull = 4U << 20;

bool takes_bytes(int fd) {
  pollfd ready = {fd, POLLOUT, 0};
  return poll(&ready, 1, 0) == 1;
}

// A pipe that takes any bytes takes this many without blocking. Best are whole lines, since others
// may write there too.
std::size_t piece_of(std::string_view bytes) {
  if (bytes.size() <= PIPE_BUF) return bytes.size();
  const std::size_t newline = bytes.rfind('\n', PIPE_BUF - 1);
  return newline == std::string_view::npos ? PIPE_BUF : newline + 1;
}

}  // namespace

void OutputQueue::push(std::string_view bytes) {
  if (broken_) return;
  bytes_ += bytes;
  flush();
}

// The descriptor is not made non-blocking: others, such as the user's shell, share that.
void OutputQueue::flush() {
  std::size_t done = 0;
  while (done < bytes_.size() && takes_bytes(fd_)) {
    const std::string_view piece =
        std::string_view(bytes_).substr(done, piece_of(std::string_view(bytes_).substr(done)));
    const ssize_t n = ::write(fd_, piece.data(), piece.size());
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n >= 0 || errno == EINTR) continue;
    broken_ = errno != EAGAIN;
    break;
  }
  bytes_.erase(0, broken_ ? bytes_.size() : done);
}

bool OutputQueue::full() const { return bytes_.size() > kFull; }

void LineWriter::write(std::string_view bytes) {
  if (lines_ == Lines::kAsTheyCome) return queue_->push(bytes);
  std::string out;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    partial_.append(bytes.substr(0, newline));
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    const bool whole = newline != std::string_view::npos;
    if (!whole && partial_.size() < kMaxLine) break;
    out += tag_ + partial_;
    if (whole || lines_ == Lines::kTagged) out += '\n';
    partial_.clear();
  }
  queue_->push(out);
}

void LineWriter::finish() {
  if (partial_.empty()) return;
  if (lines_ == Lines::kTagged) return write("\n");
  queue_->push(partial_);
  partial_.clear();
}

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

bool same_file(int a, int b) {
  struct stat of_a, of_b;
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace echelon::run
