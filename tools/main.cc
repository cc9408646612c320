// SPDX-License-Identifier: Apache-2.0
// The `echelon` program: one line per command.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "tools/command_line.h"
#include "tools/doctor.h"
#include "tools/perf.h"
#include "tools/plan.h"
#include "tools/run.h"
#include "tools/topo.h"
#include "tools/tune.h"

namespace {

constexpr const char* kExamples =
    "examples:\n"
    "  echelon run -n 4 -- ./program\n"
    "  echelon run --emulate 4x2:1gbit -- ./program\n"
    "Every command has its own --help.\n";

int exit_code(ech_status status) { return status == ECH_ERR_UNSUPPORTED ? 3 : 2; }

}  // namespace

int main(int argc, char** argv) {
  // Without these, pipes would get the numbers of stdin, stdout and stderr.
  int last = 0;
  while ((last = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && last <= 2) {
  }
  using namespace echelon::tools;
  Program program("echelon", "Echelon: allreduce along the fabric that really connects the ranks.");
  program.version(
      fmt::format("echelon {}.{}.{}", ECH_VERSION_MAJOR, ECH_VERSION_MINOR, ECH_VERSION_PATCH));
  program.itself().examples(kExamples);
  char** const separator = std::find(argv + 1, argv + argc, std::string_view("--"));
  add_doctor(program);
  add_perf(program);
  add_plan(program);
  add_run(program, {std::min(separator + 1, argv + argc), argv + argc});
  add_topo(program);
  add_tune(program);
  try {
    return program.run(static_cast<int>(separator - argv), argv);
  } catch (const echelon::Error& e) {
    fmt::print(stderr, "{}: {}\n", program.speaker(), e.what());
    return exit_code(e.code());
  }
}
