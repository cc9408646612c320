// SPDX-License-Identifier: Apache-2.0
// What looks wrong about the links' numbers, in one line each; "" when nothing does.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/report.h"

namespace echelon::perf {

// Links within a host that were measured far too slow, in a fabric as JSON.
std::string doubts_about_links(const std::string& fabric_json);

// Rows that took far less than their bound.
std::string doubts_about_bounds(const std::vector<Row>& rows);

}  // namespace echelon::perf
