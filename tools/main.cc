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
#include "tools/tune.h"

namespace {

constexpr const char* kExamples =
    "examples:\n"
    "  echelon run -n 4 -- ./program\n"
    "  echelon run --emulate 4x2:1gbit -- ./program\n"
    "Every command has its own --help.\n";

int exit_code(ech_status status) { return status == ECH_ERR_UNSUPPORTED ? 3 : 2; }

// "echelon run", as far as a command has been given.
std::string speaker(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? "echelon" : "echelon " + given[0]->get_name();
}

std::string one_line(const CLI::App* app, const CLI::Error& error) {
  return fmt::format("{}: {}\n", speaker(*app), error.what());
}

// "" or what is wrong with the first word.
std::string problem_with_command(const CLI::App& app, const std::vector<std::string>& words) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!words.empty() && words[0] == command->get_name()) return "";
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  const std::string expected = fmt::format("expected one of {}; see echelon --help", known);
  if (words.empty()) return "no command; " + expected;
  if (words[0] == "-h" || words[0] == "--help" || words[0] == "--version") return "";
  const bool option = words[0].starts_with('-');
  return fmt::format("{} \"{}\"; {}", option ? "a command comes first, not" : "unknown command",
                     words[0], expected);
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
  app.option_defaults()->take_last();  // of an option that is given twice
  app.footer(kExamples);
  app.failure_message(one_line);
  char** const separator = std::find(argv + 1, argv + argc, std::string_view("--"));
  const std::vector<std::string> after(std::min(separator + 1, argv + argc), argv + argc);
  echelon::tools::add_doctor(app);
  echelon::tools::add_perf(app);
  echelon::tools::add_plan(app);
  echelon::tools::add_run(app, after);
  echelon::add_topo(app);
  echelon::tools::add_tune(app);
  const std::string problem = problem_with_command(app, {argv + 1, separator});
  if (!problem.empty()) {
    fmt::print(stderr, "echelon: {}\n", problem);
    return 2;
  }
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const echelon::Error& e) {
    fmt::print(stderr, "{}: {}\n", speaker(app), e.what());
    return exit_code(e.code());
  }
  return 0;
}
