// SPDX-License-Identifier: Apache-2.0
// The agent: starts the ranks of one host on behalf of the launcher, which it talks to over
// stdin and stdout (run_protocol.h), passes their output on, and ends them when it is told to or
// when the connection closes.
#pragma once

namespace echelon::run {

int agent_main();  // the exit code of `echelon run --agent`

}  // namespace echelon::run
