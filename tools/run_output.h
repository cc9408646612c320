// SPDX-License-Identifier: Apache-2.0
// The ranks' output on the launcher's stdout and stderr: whole lines, with their rank's tag or
// without, or the bytes as they come. Nothing here waits for who reads them, except write_all().
#pragma once

#include <string>
#include <string_view>

namespace echelon::run {

// What is still to be written to one descriptor. The bytes of one push() stay together unless they
// are more than a pipe takes at once.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}

  void push(std::string_view bytes);
  // Writes what the descriptor takes now.
  void flush();
  // Nobody is to get what is left.
  void drop() { bytes_.clear(); }

  int fd() const { return fd_; }
  bool empty() const { return bytes_.empty(); }
  bool full() const;                       // what makes more output should wait
  bool broken() const { return broken_; }  // no one reads the descriptor any more

 private:
  int fd_;
  bool broken_ = false;
  std::string bytes_;
};

// kAuto: kTagged on a terminal, else kWhole.
enum class Lines { kAuto, kTagged, kWhole, kAsTheyCome };

// One stream of one rank. kWhole and kTagged write lines in one piece, so that lines of ranks never
// mix.
class LineWriter {
 public:
  // `tag` is what kTagged puts before each line.
  LineWriter(OutputQueue& queue, std::string tag, Lines lines)
      : queue_(&queue), tag_(lines == Lines::kTagged ? std::move(tag) : ""), lines_(lines) {}

  void write(std::string_view bytes);
  void finish();  // writes a last line that has no newline; a tagged one gets it

 private:
  OutputQueue* queue_;
  std::string tag_;
  Lines lines_;
  std::string partial_;
};

// Writes all of it, waiting where the descriptor does not block. False when that cannot be.
bool write_all(int fd, std::string_view bytes);

// Whether both lead to the same place.
bool same_file(int a, int b);

}  // namespace echelon::run
