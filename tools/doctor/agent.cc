// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/agent.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/reach.h"
#include "tools/doctor/report.h"
#include "tools/run_output.h"

namespace echelon::doctor {
namespace {

using Json = nlohmann::json;

Json report(const Json& question, const OpenPort& port) {
  const Job job{question.at("hosts"), question.at("ranks"), question.at("local_ranks")};
  return {{"report", to_document(examine(look_at_this_machine(job)))}, {"port", port.port}};
}

Json time_of_day() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {{"time", std::chrono::duration<double>(now).count()}};
}

Json reach_targets(const Json& question) {
  std::vector<Target> targets;
  for (const Json& target : question.at("targets"))
    targets.push_back({target.at("host"), target.at("port")});
  Json reached = Json::array();
  for (const Reached& r : reach(targets, question.at("limit")))
    reached.push_back({{"outcome", name(r.outcome)}, {"address", r.address}, {"detail", r.detail}});
  return {{"reached", reached}};
}

Json answer(const std::string& line, const OpenPort& port) {
  try {
    const Json question = Json::parse(line);
    const std::string asked = question.at("ask");
    if (asked == "report") return report(question, port);
    if (asked == "time") return time_of_day();
    if (asked == "reach") return reach_targets(question);
    return {{"error", "unknown question " + asked}};
  } catch (const std::exception& e) {
    return {{"error", e.what()}};
  }
}

}  // namespace

int agent_main() {
  // What the launcher of the doctor's own agents has set is no setting of this host.
  for (const char* name : {"ECHELON_RANK", "ECHELON_SIZE", "ECHELON_LOCAL_RANK",
                           "ECHELON_LOCAL_SIZE", "ECHELON_ROOT", "ECHELON_SECRET"})
    unsetenv(name);
  const OpenPort port = open_port();
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json said = answer(line, port);
    const std::string text = said.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    if (!run::write_all(1, text)) return 1;
  }
  return 0;
}

}  // namespace echelon::doctor
