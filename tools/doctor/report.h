// SPDX-License-Identifier: Apache-2.0
// Findings as lines for people and as JSON for programs, and a host's report as it travels.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "tools/doctor/finding.h"
#include "tools/doctor/survey.h"

namespace echelon::doctor {

// One line per finding; hosts that say the same share a line. The last line counts. Hosts are
// named when there are several.
std::string to_text(const Survey& survey);

// {"echelon", "hosts": [{"host", "versions", "nics"}], "findings": [{"host", "check", "verdict",
// "found", "why", "remedy"}], "ok", "costs", "broken"}
std::string to_json(const Survey& survey);

// Whether anything is broken.
bool is_broken(const Survey& survey);

nlohmann::json to_document(const Report& report);
// Throws ECH_ERR_INVALID naming what is wrong.
Report report_from(const nlohmann::json& document);

}  // namespace echelon::doctor
