// SPDX-License-Identifier: Apache-2.0
// Errors that a stand-in is told to give: "cuMemAlloc_v2:3=2,cuEventRecord:1=700" in a variable of
// the environment lets the third call of the first function end with 2, the first of the other with
// 700. Calls are counted over the process.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace echelon::standin {

class Faults {
 public:
  explicit Faults(const char* variable);
  int next(std::string_view function);  // the error of this call; 0: none

 private:
  struct Count {
    int calls = 0;
    std::map<int, int> errors;  // by number of the call, from 1
  };
  std::mutex mutex_;
  std::map<std::string, Count, std::less<>> functions_;
};

double number_from(const char* variable, double fallback);

// Says it to standard error and ends the process: a test that sees this is wrong.
[[noreturn]] void give_up(const std::string& message);

}  // namespace echelon::standin
