// SPDX-License-Identifier: Apache-2.0
// The ranks' output on the launcher's stdout and stderr: whole lines, each with its rank's tag,
// or the bytes as they come.
#pragma once

#include <string>
#include <string_view>

namespace echelon::run {

// One stream of one rank. Lines are written in one piece, so that lines of ranks never mix.
class LineWriter {
 public:
  // `tag` is put before each line; `tagged` false: bytes pass through at once.
  LineWriter(int fd, std::string tag, bool tagged)
      : fd_(fd), tag_(std::move(tag)), tagged_(tagged) {}

  // These return false when no one reads the descriptor any more.
  bool write(std::string_view bytes);
  bool finish();  // writes a last line that has no newline, and ends it

 private:
  int fd_;
  std::string tag_;
  bool tagged_;
  std::string partial_;
};

// Writes all of it, waiting where the descriptor does not block. False when that cannot be.
bool write_all(int fd, std::string_view bytes);

}  // namespace echelon::run
