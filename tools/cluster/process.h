// SPDX-License-Identifier: Apache-2.0
// Starting programs: fork and exec with errors that reach the caller.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"

namespace echelon::cluster {

struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=VALUE, added to this process's environment
  int in = -1;                   // descriptors to use as 0, 1, 2; -1: inherit
  int out = -1;
  int err = -1;
  bool own_group = false;  // lead a process group
};

// Starts the program (found along PATH) and returns its process id. `prepare` runs in the child
// before exec: it may call the system only, must not allocate, and throws nothing; it returns 0
// or an errno. Throws ECH_ERR_SYSTEM when the program cannot be started.
pid_t spawn(const Command& command, const std::function<int()>& prepare = {});

// Waits for the process; the exit code, or 128 + signal.
int wait_for(pid_t pid);

// An anonymous file with this text, to be read from its start.
Fd text_file(std::string_view text);

struct Pipe {
  Fd read;
  Fd write;
};

Pipe make_pipe();  // close-on-exec at both ends

void write_file(const std::string& path, std::string_view text);

}  // namespace echelon::cluster
