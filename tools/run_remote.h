// SPDX-License-Identifier: Apache-2.0
// How an agent is started on another host, and which hosts a batch system has given us.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/run_options.h"

namespace echelon::run {

// The command, run here, whose stdin and stdout are those of an agent on `host`. The launcher is
// the option's, else srun inside a Slurm job, mpirun inside a PBS job, else ssh or what stands in
// for it. An mpirun that is merely installed would itself call ssh.
std::vector<std::string> remote_agent_command(const Options& options, const std::string& host);

// One word for any POSIX shell.
std::string quoted(const std::string& text);

// The hosts of the Slurm or PBS job this process is in; empty outside.
std::vector<HostSlots> allocated_hosts();

// "4(x2),3": Slurm's count per node, for nodes in order. Throws ECH_ERR_INVALID.
std::vector<int> parse_tasks_per_node(std::string_view text);

// What ranks on other hosts get of this environment: ECHELON_*, UCX_*, PATH, LD_LIBRARY_PATH. The
// secret is not among it; it is the launcher's to give.
std::vector<std::string> forwarded_environment();

}  // namespace echelon::run
