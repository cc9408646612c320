// SPDX-License-Identifier: Apache-2.0
// Runs the built echelon program in tests and gives back all that it said.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace echelon::test {

struct Result {
  int code = -1;  // exit code, or 128 + signal
  std::string out, err;
};

// The program under test, from ECHELON_PROGRAM, which Meson sets.
std::string program();

// Runs argv[0] along PATH with `input` as stdin; killed after `limit`, which fails the test.
Result run_program(const std::vector<std::string>& argv, const std::string& input = "",
                   std::chrono::seconds limit = std::chrono::seconds(30));

// "run" and the arguments.
Result echelon_run(std::vector<std::string> args, const std::string& input = "");

// An executable file for as long as the object lives.
class TempScript {
 public:
  explicit TempScript(const std::string& text);
  ~TempScript();
  TempScript(const TempScript&) = delete;
  TempScript& operator=(const TempScript&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> lines_of(const std::string& text);  // sorted

// Whether an extended regular expression (POSIX) matches somewhere in `text`.
bool matches(const std::string& text, const std::string& pattern);

}  // namespace echelon::test
