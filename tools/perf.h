// SPDX-License-Identifier: Apache-2.0
// `echelon perf`: measures and checks the collectives over the ranks it is started with.
// See bench/README.md.
#pragma once

#include <functional>

#include "tools/perf/settings.h"

namespace echelon::tools {

class Program;

void add_perf(Program& program);

// Runs `body`, what perf or tune does with the ranks; returns the exit status: 1 for a
// perf::Failure or want of memory, after a line that begins with "echelon" and `subcommand`. Throws
// UsageError for its std::invalid_argument.
int run_subcommand(const char* subcommand, const std::function<void()>& body);

// A program of its own over the same options, which start from `preset`. Returns what main() does.
int perf_program(int argc, char** argv, const perf::Settings& preset, const char* description);

}  // namespace echelon::tools
