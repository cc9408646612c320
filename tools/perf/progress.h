// SPDX-License-Identifier: Apache-2.0
// A line on the terminal that says what a long run is doing. Silent where stderr is no terminal.
#pragma once

#include <string>

namespace echelon::perf {

class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& text);
  void clear();

 private:
  const bool on_;
};

}  // namespace echelon::perf
