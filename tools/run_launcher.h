// SPDX-License-Identifier: Apache-2.0
// The launcher: one agent per host (run_agent.h), checked first, then started together; output,
// input, signals and exit codes of all ranks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tools/cluster/process.h"
#include "tools/run_output.h"
#include "tools/run_protocol.h"

namespace echelon::run {

// Exit codes of `echelon run` besides those of the ranks; docs/run.md has the table.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnsupported = 3;
inline constexpr int kExitHost = 4;
inline constexpr int kExitTimeout = 124;

struct HostPlan {
  std::string name;
  std::string address;           // by which the other hosts reach it
  std::vector<int> ranks;        // by local rank
  std::vector<std::string> env;  // for this host only
  // Starts the agent with the given stdin, stdout and stderr.
  std::function<pid_t(const cluster::Command& standard)> start_agent;
};

struct RunPlan {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string directory;
  std::vector<HostPlan> hosts;  // those without ranks are left out
  int size = 0;
  Bind bind = Bind::kAuto;
  std::string interface_name;
  Lines lines = Lines::kAuto;
  bool keep_going = false;    // when a rank fails, or a host is lost
  double timeout = 0;         // s for the whole run; 0: none
  double check_timeout = 20;  // s for every host to answer
};

// Runs the job to its end and returns the exit code. Takes over SIGINT, SIGTERM and SIGHUP.
int launch(const RunPlan& plan);

}  // namespace echelon::run
