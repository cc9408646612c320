// SPDX-License-Identifier: Apache-2.0
// One rank of pmix_test: finds the others as the first argument says ("auto" or "pmix"), as often
// as the second, and prints what it found.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "lib/bootstrap/bootstrap.h"

int main(int, char** argv) try {
  using namespace echelon;
  using namespace std::chrono_literals;
  for (int left = std::atoi(argv[2]); left > 0; --left) {
    BootstrapOptions options;
    options.mode = argv[1];
    options.interface = "lo";
    options.deadline = Deadline::clock::now() + 20s;
    options.lookup = [](const char* name) { return std::getenv(name); };
    const Bootstrapped found = bootstrap(options);
    std::string sum;
    const std::string mine = fmt::format("{}", found.control->rank());
    for (const std::string& part : found.control->allgather(mine, options.deadline)) sum += part;
    found.control->close(options.deadline);
    fmt::print("{} of {} by {}, all {}\n", found.control->rank(), found.control->size(),
               found.source, sum);
  }
  return 0;
} catch (const echelon::Error& e) {
  fmt::print("status {}: {}\n", static_cast<int>(e.code()), e.what());
  return 1;
}
