// SPDX-License-Identifier: Apache-2.0
// `echelon perf`: measures and checks the collectives over the ranks it is started with.
// See bench/README.md.
#pragma once

#include <functional>

#include "tools/perf/settings.h"

namespace CLI {
class App;
}

namespace echelon::tools {

void add_perf(CLI::App& app);

// Runs `body`, what perf or tune does with the ranks. Throws CLI::ValidationError for its
// std::invalid_argument, and CLI::RuntimeError(1) for a perf::Failure or want of memory, after a
// line that begins with "echelon" and `subcommand`.
void run_subcommand(const char* subcommand, const std::function<void()>& body);

// A program of its own over the same options, which start from `preset`. Returns what main() does.
int perf_program(int argc, char** argv, const perf::Settings& preset, const char* description);

}  // namespace echelon::tools
