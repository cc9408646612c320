// SPDX-License-Identifier: Apache-2.0
// `echelon topo`: shows what is known of this machine, or of the machines of a file.
#pragma once

namespace echelon::tools {

class Program;

void add_topo(Program& program);

}  // namespace echelon::tools
