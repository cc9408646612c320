// SPDX-License-Identifier: Apache-2.0
// Foreign programs, such as another library's launcher, inside a virtual cluster. They reach the
// other hosts through an "rsh agent": a script that asks this process, over a socket in the host's
// own network, to start a command elsewhere with the script's stdin, stdout and stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cluster/cluster.h"

namespace echelon::run {

// Runs `command` by sh on host0 with ECHELON_RSH (the agent: "$ECHELON_RSH HOST COMMAND...") and
// ECHELON_HOSTS ("host0:2,host1:2") set. The exit code, or 128 + signal.
int run_shell(const cluster::Cluster& cluster, const std::string& command);

// What the agent asks for. decode_shell_request() throws ECH_ERR_INVALID for other bytes.
struct ShellRequest {
  std::string host;     // name or address
  std::string command;  // for sh
};
std::string encode(const ShellRequest& request);
ShellRequest decode_shell_request(std::string_view bytes);

// The agent's own part, inside a host: `request` is the host and the command's words. Its exit
// code, or 255 when it could not be started.
int enter_main(const std::vector<std::string>& request);

}  // namespace echelon::run
