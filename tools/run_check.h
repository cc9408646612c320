// SPDX-License-Identifier: Apache-2.0
// What a host must have before ranks are started on it.
#pragma once

#include <string>
#include <vector>

#include "tools/run_protocol.h"

namespace echelon::run {

// One sentence each; empty when everything is there.
std::vector<std::string> problems_of_this_host(const CheckRequest& request);

// "" or why `program` (a path, or a name along PATH) cannot be run from `directory`.
std::string problem_with_program(const std::string& program, const std::string& directory);

// A TCP port that nothing uses at this moment.
unsigned free_port();

}  // namespace echelon::run
