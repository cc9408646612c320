// SPDX-License-Identifier: Apache-2.0
// `echelon run`: starts a program as ranks on this machine, on other hosts, or on a virtual
// cluster. See docs/run.md.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "tools/run_options.h"

namespace echelon::tools {

// Which hosts, and how they are reached: what commands that use several hosts have in common.
void add_host_options(CLI::App& cmd, run::Options& options);

// `program` is what the command line has after "--", which CLI11 must not look into. Without "--"
// the program begins at the first argument that is no option.
void add_run(CLI::App& app, const std::vector<std::string>& program);

}  // namespace echelon::tools
