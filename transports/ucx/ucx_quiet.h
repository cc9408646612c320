// SPDX-License-Identifier: Apache-2.0
// UCX prints its warnings and installs signal handlers. A library must do neither.
#pragma once

#include <string>

namespace echelon {

// Gives the signals that UCX took when it was loaded back to their owners. Once per process.
void release_signals();

// While one exists, what UCX has to say about calls of this thread is kept here, not printed.
// Others' use of UCX in the same process prints as before.
class UcxQuiet {
 public:
  UcxQuiet();
  ~UcxQuiet();
  UcxQuiet(const UcxQuiet&) = delete;
  UcxQuiet& operator=(const UcxQuiet&) = delete;

  // The first error or warning, or "".
  const std::string& text() const { return text_; }
  void keep(const char* text);

 private:
  UcxQuiet* const outer_;
  std::string text_;
};

}  // namespace echelon
