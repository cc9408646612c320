// SPDX-License-Identifier: Apache-2.0
// One rank of pmix_test: finds the others as the first argument says ("auto" or "pmix"), as often
// as the second, and prints what it found, which must be the same each time.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "lib/bootstrap/bootstrap.h"

int main(int, char** argv) try {
  using namespace echelon;
  using namespace std::chrono_literals;
  std::string last;
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
    const std::string said = fmt::format("{} of {} by {}, all {}", found.control->rank(),
                                         found.control->size(), found.source, sum);
    if (!last.empty() && said != last) throw Error(ECH_ERR_SYSTEM, said + " after " + last);
    last = said;
  }
  fmt::print("{}\n", last);
  return 0;
} catch (const echelon::Error& e) {
  fmt::print("status {}: {}\n", static_cast<int>(e.code()), e.what());
  return 1;
}
