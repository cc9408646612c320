// SPDX-License-Identifier: Apache-2.0
// The `echelon` program: one line per command.
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "tools/doctor.h"
#include "tools/perf.h"
#include "tools/plan.h"
#include "tools/run.h"
#include "tools/topo.h"

namespace {

constexpr const char* kExamples =
    "examples:\n"
    "  echelon run -n 4 -- ./program\n"
    "  echelon run --emulate 4x2:1gbit -- ./program\n"
    "Every command has its own --help.\n";

int exit_code(ech_status status) { return status == ECH_ERR_UNSUPPORTED ? 3 : 2; }

std::string one_line(const CLI::App*, const CLI::Error& error) {
  return fmt::format("echelon: {}\n", error.what());
}

}  // namespace

int main(int argc, char** argv) {
  // Without these, pipes would get the numbers of stdin, stdout and stderr.
  int last = 0;
  while ((last = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && last <= 2) {
  }
  CLI::App app("Echelon: allreduce along the fabric that really connects the ranks.", "echelon");
  app.set_version_flag("--version", fmt::format("echelon {}.{}.{}", ECH_VERSION_MAJOR,
                                                ECH_VERSION_MINOR, ECH_VERSION_PATCH));
  app.require_subcommand(1);
  app.footer(kExamples);
  app.failure_message(one_line);
  char** const separator = std::find(argv + 1, argv + argc, std::string_view("--"));
  const std::vector<std::string> after(std::min(separator + 1, argv + argc), argv + argc);
  echelon::tools::add_doctor(app);
  echelon::tools::add_perf(app);
  echelon::tools::add_plan(app);
  echelon::tools::add_run(app, after);
  echelon::add_topo(app);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const echelon::Error& e) {
    fmt::print(stderr, "echelon: {}\n", e.what());
    return exit_code(e.code());
  }
  return 0;
}
