// SPDX-License-Identifier: Apache-2.0
// The command line of doctor. Everything else is in tools/doctor/.
#include "tools/doctor.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "lib/base/error.h"
#include "lib/bootstrap/address.h"
#include "tools/command_line.h"
#include "tools/doctor/agent.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/examiner.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/report.h"
#include "tools/run.h"

namespace echelon::tools {
namespace {

constexpr int kExitBroken = 1;

constexpr const char* kExamples =
    "examples:\n"
    "  echelon doctor                             this machine\n"
    "  echelon doctor -H a:8,b:8                  two hosts, and what is between them\n"
    "  echelon run --emulate 2x2 --shell 'echelon doctor -H $ECHELON_HOSTS'\n"
    "docs/doctor.md lists the checks.\n";

doctor::Survey survey_this_machine() {
  doctor::HostSurvey host{host_name(), {}, {}, {}};
  try {
    host.report = doctor::examine(doctor::look_at_this_machine({}));
  } catch (const Error& e) {
    host.problem = e.what();
  }
  return {{host}, {}};
}

int run_doctor(const run::Options& options, const std::string& format) {
  const doctor::Survey survey =
      run::listed_hosts(options).empty() ? survey_this_machine() : doctor::survey_hosts(options);
  fmt::print("{}", format == "json" ? doctor::to_json(survey) : doctor::to_text(survey));
  return doctor::is_broken(survey) ? kExitBroken : 0;
}

}  // namespace

void add_doctor(Program& program) {
  struct Given {
    run::Options hosts;
    std::string format = "text";
    bool agent = false;
  };
  const auto given = std::make_shared<Given>();
  Command command =
      program.command("doctor", "check hosts for what Echelon needs and for what costs speed");
  add_host_options(command, given->hosts);
  command.option("--format text|json", "Output format [text]",
                 one_word(given->format, {"text", "json"}));
  command.internal_flag("--agent", given->agent);  // started by examiner.h only
  command.examples(kExamples);
  command.action([given] {
    return given->agent ? doctor::agent_main() : run_doctor(given->hosts, given->format);
  });
}

}  // namespace echelon::tools
