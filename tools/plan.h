// SPDX-License-Identifier: Apache-2.0
// `echelon plan`: what would be chosen on the machines of a fabric file, and why. Needs no cluster.
#pragma once

namespace echelon::tools {

class Program;

void add_plan(Program& program);

}  // namespace echelon::tools
