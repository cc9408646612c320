// SPDX-License-Identifier: Apache-2.0
// One rank of pmix_test: finds the others as the first argument says ("auto" or "pmix"), as often
// as the second, and prints what it found, which must be the same each time. With a third argument
// a fork of it tries that, too, and prints what came of it.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/base/error.h"
#include "lib/bootstrap/bootstrap.h"

namespace {

using namespace echelon;
using namespace std::chrono_literals;

std::string find_others(const char* mode) {
  BootstrapOptions options;
  options.mode = mode;
  options.interface = "lo";
  options.deadline = Deadline::clock::now() + 20s;
  options.lookup = [](const char* name) { return std::getenv(name); };
  const Bootstrapped found = bootstrap(options);
  std::string sum;
  const std::string mine = fmt::format("{}", found.control->rank());
  for (const std::string& part : found.control->allgather(mine, options.deadline)) sum += part;
  found.control->close(options.deadline);
  return fmt::format("{} of {} by {}, all {}", found.control->rank(), found.control->size(),
                     found.source, sum);
}

}  // namespace

int main(int argc, char** argv) try {
  std::string last;
  for (int left = std::atoi(argv[2]); left > 0; --left) {
    const std::string said = find_others(argv[1]);
    if (!last.empty() && said != last) throw Error(ECH_ERR_SYSTEM, said + " after " + last);
    last = said;
  }
  if (argc > 3) {
    const pid_t child = fork();
    if (child == 0) last = find_others(argv[1]);
    if (child > 0) waitpid(child, nullptr, 0);
  }
  fmt::print("{}\n", last);
  return 0;
} catch (const echelon::Error& e) {
  fmt::print("status {}: {}\n", static_cast<int>(e.code()), e.what());
  return 1;
}
