// SPDX-License-Identifier: Apache-2.0
// `echelon run`: starts a program as ranks on this machine, on other hosts, or on a virtual
// cluster. See docs/run.md.
#pragma once

#include <string>
#include <vector>

#include "tools/run_options.h"

namespace echelon::tools {

class Command;
class Program;

// Which hosts, and how they are reached: what commands that use several hosts have in common.
void add_host_options(Command& cmd, run::Options& options);

// `after` is what the command line has after "--": the program to run, which is not looked into.
// Without "--" that begins at the first argument that is no option.
void add_run(Program& program, const std::vector<std::string>& after);

}  // namespace echelon::tools
